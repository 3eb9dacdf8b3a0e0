#include "models/kernels/kernel.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/precision.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"

namespace rookery {

namespace {

const Backend* find_backend(const std::string& name) {
  for (const Backend* backend : all_backends()) {
    if (backend->name == name) return backend;
  }
  return nullptr;
}

// "backend/variant" in its two parts.
struct Chosen {
  std::string backend, variant;
};

Chosen parse_choice(const std::string& choice) {
  const std::size_t slash = choice.find('/');
  if (slash == std::string::npos) return {choice, {}};
  return {choice.substr(0, slash), choice.substr(slash + 1)};
}

std::vector<std::string_view> words_of(std::string_view variant) {
  std::vector<std::string_view> words;
  while (!variant.empty()) {
    const std::size_t end = std::min(variant.find('-'), variant.size());
    words.push_back(variant.substr(0, end));
    variant.remove_prefix(std::min(end + 1, variant.size()));
  }
  return words;
}

std::string types_text(std::span<const TensorType> types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + type.to_string();
  return text;
}

// Applies an op's activation after a kernel that does not do it itself.
class RectifiedKernel final : public Kernel {
 public:
  explicit RectifiedKernel(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}

  void prepare() override { kernel_->prepare(); }
  std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  std::size_t library_bytes() const override { return kernel_->library_bytes(); }
  void run(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs, std::byte* scratch,
           const StepContext& context) override {
    kernel_->run(inputs, outputs, scratch, context);
    const std::span<float> y = outputs[0].as<float>();
    in_runs(
        std::ssize(y), 1,
        [&](std::int64_t at, std::int64_t count) { simd::loops().relu(count, y.data() + at, y.data() + at); },
        kAlignment);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

std::vector<const Backend*> all_backends() {
  std::vector<const Backend*> all{&simd_backend()};
  if (const Backend* onednn = onednn_backend()) all.push_back(onednn);
  all.push_back(&eigen_backend());
  return all;
}

const std::vector<std::string>& backends() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Backend* backend : all_backends()) result.emplace_back(backend->name);
    return result;
  }();
  return names;
}

bool KernelRequest::asks_for(std::string_view word) const {
  return std::ranges::count(words_of(variant), word) > 0;
}

bool asks_for(const std::string& choice, std::string_view word) {
  return std::ranges::count(words_of(parse_choice(choice).variant), word) > 0;
}

std::unique_ptr<Kernel> describe_kernel_of(const std::string& choice, const KernelRequest& request) {
  const Chosen chosen = parse_choice(choice);
  const Backend* backend = find_backend(chosen.backend);
  if (backend == nullptr) return nullptr;
  const auto unknown = [&](std::string_view word) { return !backend->words.contains(word); };
  if (std::ranges::any_of(words_of(chosen.variant), unknown)) return nullptr;
  auto kernel = backend->make({.op = request.op,
                               .inputs = request.inputs,
                               .outputs = request.outputs,
                               .seed = request.seed,
                               .variant = chosen.variant});
  if (!kernel || !has_activation(request.op) || backend->fuses(request.op)) return kernel;
  return std::make_unique<RectifiedKernel>(std::move(kernel));
}

std::unique_ptr<Kernel> describe_kernel(const std::string& choice, const KernelRequest& request) {
  if (const std::string backend = parse_choice(choice).backend; find_backend(backend) == nullptr) {
    throw ConfigError(fmt::format("{}: this program has no kernels called '{}'; it has {}", request.op.name,
                                  backend, fmt::join(backends(), ", ")));
  }
  if (asks_for(choice, "bf16") && !has_bf16()) {
    throw ConfigError(fmt::format(
        "{}: it is planned in bf16, which this processor has not (avx512_bf16): plan with precision fp32",
        request.op.name));
  }
  for (const std::string& name : {choice, std::string("onednn"), std::string("eigen")}) {
    if (auto kernel = describe_kernel_of(name, request)) return kernel;
  }
  throw ConfigError(fmt::format("{}: no kernel for {} of ({}) -> ({})", request.op.name, request.op.type,
                                types_text(request.inputs), types_text(request.outputs)));
}

std::unique_ptr<Kernel> make_kernel(const std::string& choice, const KernelRequest& request) {
  auto kernel = describe_kernel(choice, request);
  kernel->prepare();
  return kernel;
}

std::unique_ptr<Kernel> make_kernel_of(const std::string& choice, const KernelRequest& request) {
  auto kernel = describe_kernel_of(choice, request);
  if (kernel) kernel->prepare();
  return kernel;
}

}  // namespace rookery
