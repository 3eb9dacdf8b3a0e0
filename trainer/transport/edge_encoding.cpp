#include "trainer/transport/edge_encoding.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "trainer/transport/codec.hpp"

namespace rookery {
namespace {

TensorType encoded_type(const Compression& compression, const TensorType& type) {
  if (!compression.is_lossy() || type.dtype != DType::kF32) return type;
  const std::size_t bytes = make_codec(compression)->bytes(static_cast<std::size_t>(type.shape.elements()));
  if (bytes >= type.bytes()) return type;
  return {DType::kU8, Shape{static_cast<std::int64_t>(bytes)}};
}

}  // namespace

EdgeEncoding::EdgeEncoding(const TransportSettings& settings, std::set<std::string> data)
    : activations_(parse_compression(settings.activations)),
      gradients_(parse_compression(settings.gradients)),
      data_(std::move(data)) {}

Compression EdgeEncoding::of_activation(const std::string& value, const TensorType& type) const {
  return activation_type(value, type) == type ? Compression() : activations_;
}

Compression EdgeEncoding::of_gradient(const TensorType& type) const {
  return gradient_type(type) == type ? Compression() : gradients_;
}

bool EdgeEncoding::feeds_back(const TensorType& type) const {
  const Encoding encoding = of_gradient(type).encoding;
  return encoding == Encoding::kInt8 || encoding == Encoding::kInt4;
}

TensorType EdgeEncoding::activation_type(const std::string& value, const TensorType& type) const {
  return data_.contains(value) ? type : encoded_type(activations_, type);
}

TensorType EdgeEncoding::gradient_type(const TensorType& type) const {
  return encoded_type(gradients_, type);
}

std::set<std::string> input_names(const Graph& model) {
  std::set<std::string> names;
  for (const ValueId id : model.inputs()) names.insert(model.value(id).name);
  return names;
}

}  // namespace rookery
