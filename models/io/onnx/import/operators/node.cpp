#include "models/io/onnx/import/operators/node.hpp"

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

template <typename Number>
std::vector<Number> numbers_of(const Tensor& tensor, const std::string& what) {
  const auto all = [](auto elements) { return std::vector<Number>(elements.begin(), elements.end()); };
  const DType dtype = tensor.type().dtype;
  if (dtype == DType::kI64) return all(tensor.as<std::int64_t>());
  if (dtype == DType::kI32) return all(tensor.as<std::int32_t>());
  if constexpr (std::is_same_v<Number, float>) {
    if (dtype == DType::kF32) return all(tensor.as<float>());
    if (dtype == DType::kF64) return all(tensor.as<double>());
  }
  throw DataError(fmt::format("its {} is {}", what, tensor.type().to_string()));
}

}  // namespace

const Operand& input(const ImportedNode& node, std::size_t position) {
  static const Operand absent;
  return position < node.inputs.size() ? node.inputs[position] : absent;
}

bool is_there(const ImportedNode& node, std::size_t position) {
  return !std::holds_alternative<std::monostate>(input(node, position));
}

const Known& known_input(const ImportedNode& node, std::size_t position, const std::string& what) {
  const auto* known = std::get_if<Known>(&input(node, position));
  if (known == nullptr) throw DataError(fmt::format("its {} is not known before training", what));
  return *known;
}

std::vector<std::int64_t> integers_of(const Tensor& tensor, const std::string& what) {
  return numbers_of<std::int64_t>(tensor, what);
}

Attribute attribute_from(AttributeKind kind, const Tensor& tensor, const std::string& what) {
  const bool is_list = kind == AttributeKind::kInts || kind == AttributeKind::kFloats;
  if (!is_list && tensor.shape().elements() != 1)
    throw DataError(fmt::format("its {} is {}, not one number", what, tensor.type().to_string()));
  switch (kind) {
    case AttributeKind::kInt:
      return numbers_of<std::int64_t>(tensor, what)[0];
    case AttributeKind::kInts:
      return numbers_of<std::int64_t>(tensor, what);
    case AttributeKind::kFloat:
      return numbers_of<float>(tensor, what)[0];
    default:
      return numbers_of<float>(tensor, what);
  }
}

AtProbes<std::vector<std::int64_t>> integers_at_probes(const ImportedNode& node, std::size_t position,
                                                       const std::string& what) {
  const Known& known = known_input(node, position, what);
  AtProbes<std::vector<std::int64_t>> all;
  for (std::size_t probe = 0; probe < kProbes; ++probe) all[probe] = integers_of(known.at(probe), what);
  return all;
}

std::int64_t integer(const ImportedNode& node, const std::string& key, std::int64_t otherwise) {
  const auto found = node.attributes.find(key);
  if (found == node.attributes.end()) return otherwise;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  if (value == nullptr) throw DataError(fmt::format("attribute \"{}\" has the wrong type", key));
  return *value;
}

}  // namespace rookery
