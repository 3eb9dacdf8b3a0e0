#include "models/io/onnx/format/parse.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/parse.hpp"

namespace rookery {
namespace {

constexpr int kMaxNesting = 16;

std::uint64_t place_from(const std::string& text, const char* key) {
  const auto number = number_from<std::uint64_t>(text);
  if (!number) throw DataError(fmt::format("its external data has the {} {}", key, in_quotes(text)));
  return *number;
}

// A byte that is neither 0 nor 1 is no bool to C++.
void check_booleans(ConstTensorView tensor) {
  if (tensor.type.dtype != DType::kBool) return;
  for (const std::byte byte : tensor.bytes()) {
    if (byte > std::byte{1}) throw DataError(fmt::format("has a bool of {}", static_cast<int>(byte)));
  }
}

// The elements that the message itself has as numbers, not as bytes.
template <typename Element, typename Numbers>
Tensor from_numbers(const TensorType& type, const Numbers& numbers) {
  if (numbers.size() != type.shape.elements()) {
    throw DataError(fmt::format("{} needs {} elements, there are {}", type.to_string(), type.shape.elements(),
                                numbers.size()));
  }
  Tensor tensor(type);
  std::ranges::transform(numbers, tensor.as<Element>().begin(),
                         [](auto number) { return static_cast<Element>(number); });
  return tensor;
}

Tensor from_fields(const onnx::TensorProto& proto, const TensorType& type) {
  switch (type.dtype) {
    case DType::kF32:
      return from_numbers<float>(type, proto.float_data());
    case DType::kF64:
      return from_numbers<double>(type, proto.double_data());
    case DType::kI64:
      return from_numbers<std::int64_t>(type, proto.int64_data());
    case DType::kI32:
      return from_numbers<std::int32_t>(type, proto.int32_data());
    case DType::kU8:
      return from_numbers<std::uint8_t>(type, proto.int32_data());
    case DType::kBool:
      return from_numbers<bool>(type, proto.int32_data());
  }
  ROOKERY_CHECK(false, "dtype {}", static_cast<int>(type.dtype));
}

Tensor from_bytes(const std::string& raw, const TensorType& type) {
  if (raw.size() != type.bytes()) {
    throw DataError(fmt::format("{} needs {} bytes of raw data, there are {}", type.to_string(), type.bytes(),
                                raw.size()));
  }
  Tensor tensor(type);
  std::memcpy(tensor.view().data, raw.data(), raw.size());
  check_booleans(tensor.view());
  return tensor;
}

}  // namespace

onnx::ModelProto parse_onnx(const std::string& bytes) {
  using google::protobuf::io::CodedInputStream;
  const auto size = static_cast<int>(bytes.size());
  CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()), size);
  stream.SetTotalBytesLimit(size);
  stream.SetRecursionLimit(kMaxNesting);
  onnx::ModelProto model;
  if (!model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    throw DataError("is no ONNX model, or an incomplete copy of one");
  }
  return model;
}

std::string node_name(const onnx::NodeProto& node) {
  return fmt::format("node {} ({})", in_quotes(node.name()), in_quotes(node.op_type()));
}

void fail_dangling(const onnx::GraphProto& graph, const std::string& name) {
  const bool made_later = std::ranges::any_of(graph.node(), [&](const onnx::NodeProto& node) {
    return std::ranges::find(node.output(), name) != node.output().end();
  });
  throw DataError(fmt::format("reads {}, which {}", in_quotes(name),
                              made_later
                                  ? "this or a later node makes: the nodes form a cycle or are out of order"
                                  : "is no input, no initializer and made by no node"));
}

Attribute attribute_from(const onnx::AttributeProto& attribute) {
  switch (attribute.type()) {
    case onnx::AttributeProto::INT:
      return attribute.i();
    case onnx::AttributeProto::FLOAT:
      return attribute.f();
    case onnx::AttributeProto::STRING:
      return attribute.s();
    case onnx::AttributeProto::STRINGS:
      return fmt::format("{}", fmt::join(attribute.strings(), ","));
    case onnx::AttributeProto::INTS:
      return std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end());
    case onnx::AttributeProto::FLOATS:
      return std::vector<float>(attribute.floats().begin(), attribute.floats().end());
    default:
      throw DataError("has a kind of value that is not supported");
  }
}

DType checked_dtype(std::int64_t type) {
  if (type < 0 || type > std::numeric_limits<int>::max())
    throw DataError(fmt::format("element type {} is not supported", type));
  return dtype_from_onnx(static_cast<int>(type));
}

// The attribute that these elements are, of a type that fits its kind.
Attribute attribute_of(AttributeKind kind, const Tensor& tensor) {
  switch (kind) {
    case AttributeKind::kInt:
      return tensor.as<std::int64_t>()[0];
    case AttributeKind::kFloat:
      return tensor.as<float>()[0];
    case AttributeKind::kInts:
      return std::vector<std::int64_t>(tensor.as<std::int64_t>().begin(), tensor.as<std::int64_t>().end());
    default:
      ROOKERY_CHECK(kind == AttributeKind::kFloats, "attribute kind {}", static_cast<int>(kind));
      return std::vector<float>(tensor.as<float>().begin(), tensor.as<float>().end());
  }
}

bool fits(AttributeKind kind, const TensorType& type) {
  const bool is_whole = kind == AttributeKind::kInt || kind == AttributeKind::kInts;
  const bool is_list = kind == AttributeKind::kInts || kind == AttributeKind::kFloats;
  return type.dtype == (is_whole ? DType::kI64 : DType::kF32) && type.shape.rank() == (is_list ? 1 : 0);
}

std::map<std::string, Attribute> attributes_from(const onnx::NodeProto& node,
                                                 const std::map<std::string, AttributeKind>& known) {
  std::map<std::string, Attribute> attributes;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    with_context("attribute " + in_quotes(attribute.name()), [&] {
      const auto found = known.find(attribute.name());
      if (found == known.end()) throw DataError("the operator has none of this name");
      Attribute value = attribute_from(attribute);
      const bool is_type = found->second == AttributeKind::kType;
      if (kind_of(value) != (is_type ? AttributeKind::kInt : found->second))
        throw DataError("has the wrong type");
      if (is_type) value = std::string(name_of(checked_dtype(std::get<std::int64_t>(value))));
      if (!attributes.emplace(attribute.name(), std::move(value)).second) throw DataError("is there twice");
    });
  }
  return attributes;
}

Tensor tensor_from(const onnx::TensorProto& proto, const TensorType& type, ExternalData& external) {
  if (proto.data_location() != onnx::TensorProto::EXTERNAL) {
    const bool as_numbers = proto.float_data_size() + proto.double_data_size() + proto.int64_data_size() +
                                proto.int32_data_size() >
                            0;
    return as_numbers ? from_fields(proto, type) : from_bytes(proto.raw_data(), type);
  }
  std::map<std::string, std::string> entries;
  for (const onnx::StringStringEntryProto& entry : proto.external_data()) {
    if (!entries.emplace(entry.key(), entry.value()).second)
      throw DataError("its external data is given twice");
  }
  if (!entries.contains("location")) throw DataError("its external data has no location");
  const auto number = [&](const char* key, std::uint64_t otherwise) {
    return entries.contains(key) ? place_from(entries[key], key) : otherwise;
  };
  Tensor tensor =
      external.read(type, entries["location"], number("offset", 0), number("length", type.bytes()));
  check_booleans(tensor.view());
  return tensor;
}

}  // namespace rookery
