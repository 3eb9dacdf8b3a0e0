#include "models/kernels/kernel.hpp"

#include <fmt/format.h>

#include "models/base/error.hpp"
#include "models/kernels/backend.hpp"

namespace rookery {

namespace {

std::vector<const Backend*> all_backends() {
  std::vector<const Backend*> all{&simd_backend()};
  if (const Backend* onednn = onednn_backend()) all.push_back(onednn);
  all.push_back(&eigen_backend());
  return all;
}

const Backend* find_backend(const std::string& name) {
  for (const Backend* backend : all_backends()) {
    if (backend->name == name) return backend;
  }
  return nullptr;
}

std::vector<TensorType> types_of(const std::vector<ValueId>& ids, const std::vector<TensorType>& types) {
  std::vector<TensorType> result;
  result.reserve(ids.size());
  for (const ValueId id : ids) {
    result.push_back(id == kNoValue ? TensorType{} : types[static_cast<std::size_t>(id)]);
  }
  return result;
}

std::string types_text(std::span<const TensorType> types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + type.to_string();
  return text;
}

}  // namespace

const std::vector<std::string>& backends() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Backend* backend : all_backends()) result.emplace_back(backend->name);
    return result;
  }();
  return names;
}

std::unique_ptr<Kernel> make_kernel_of(const std::string& backend, const KernelRequest& request) {
  const Backend* found = find_backend(backend);
  return found == nullptr ? nullptr : found->make(request);
}

std::unique_ptr<Kernel> make_kernel(const std::string& backend, const KernelRequest& request) {
  if (find_backend(backend) == nullptr) {
    throw ConfigError(fmt::format("{}: this program has no kernels called '{}'; it has {}", request.op.name,
                                  backend, fmt::join(backends(), ", ")));
  }
  for (const std::string& name : {backend, std::string("onednn"), std::string("eigen")}) {
    if (auto kernel = make_kernel_of(name, request)) return kernel;
  }
  throw ConfigError(fmt::format("{}: no kernel for {} of ({}) -> ({})", request.op.name, request.op.type,
                                types_text(request.inputs), types_text(request.outputs)));
}

KernelChoice choose_kernels(const Graph& graph, std::int64_t micro_batch) {
  const std::vector<TensorType> types = graph.types(micro_batch);
  KernelChoice choice;
  for (const Op& op : graph.ops()) {
    const auto inputs = types_of(op.inputs, types);
    const auto outputs = types_of(op.outputs, types);
    const KernelRequest request{.op = op, .inputs = inputs, .outputs = outputs};
    for (const Backend* backend : all_backends()) {
      if (backend->prefers(request)) {
        choice[op.name] = backend->name;
        break;
      }
    }
  }
  return choice;
}

}  // namespace rookery
