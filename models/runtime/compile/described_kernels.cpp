#include "models/runtime/compile/described_kernels.hpp"

#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "models/base/check.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/kernels/threads.hpp"

namespace rookery {
namespace {

template <typename T>
void append(std::string& key, const T& number) {
  static_assert(std::is_trivially_copyable_v<T>);
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append(std::string& key, const std::string& text) {
  append(key, text.size());
  key += text;
}

template <typename T>
void append(std::string& key, const std::vector<T>& numbers) {
  append(key, numbers.size());
  for (const T& number : numbers) append(key, number);
}

void append(std::string& key, const std::vector<ValueId>& values, std::span<const TensorType> types) {
  append(key, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    append(key, values[i] == kNoValue);
    append(key, types[i].dtype);
    append(key, types[i].shape.rank());
    for (const std::int64_t size : types[i].shape.dims()) append(key, size);
  }
}

// Neither ops' names nor the run's seed make a difference: they decide about numbers alone. Of threads each
// has scratch memory of its own.
std::string key_of(const std::string& choice, const KernelRequest& request) {
  std::string key;
  append(key, kernel_threads());
  append(key, choice);
  append(key, request.op.type);
  for (const auto& [name, attribute] : request.op.attributes) {
    if (name == "forward" || name == kActivationOp) continue;
    append(key, name);
    append(key, attribute.index());
    std::visit([&](const auto& value) { append(key, value); }, attribute);
  }
  append(key, request.op.inputs, request.inputs);
  append(key, request.op.outputs, request.outputs);
  return key;
}

}  // namespace

class DescribedKernels::Described final : public Kernel {
 public:
  explicit Described(Needs needs) : needs_(needs) {}
  std::size_t scratch_bytes() const override { return needs_.scratch_bytes; }
  std::size_t library_bytes() const override { return needs_.library_bytes; }
  void run(std::span<const ConstTensorView> /*inputs*/, std::span<const TensorView> /*outputs*/,
           std::byte* /*scratch*/, const StepContext& /*context*/) override {
    throw BugError("a kernel that is described for planning alone was run");
  }

 private:
  const Needs needs_;
};

std::unique_ptr<Kernel> DescribedKernels::describe_kernel(const std::string& choice,
                                                          const KernelRequest& request) const {
  const std::string key = key_of(choice, request);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = known_.find(key); known != known_.end())
      return std::make_unique<Described>(known->second);
  }
  const std::unique_ptr<Kernel> kernel = processor_.describe_kernel(choice, request);
  const Needs needs{.scratch_bytes = kernel->scratch_bytes(), .library_bytes = kernel->library_bytes()};
  const std::scoped_lock lock(mutex_);
  known_.emplace(key, needs);
  return std::make_unique<Described>(needs);
}

}  // namespace rookery
