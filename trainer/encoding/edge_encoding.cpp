#include "trainer/encoding/edge_encoding.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "trainer/encoding/codec.hpp"

namespace rookery {
namespace {

Compression compression_of(const std::string& setting) {
  return setting == kAutoTransport ? Compression() : parse_compression(setting);
}

TensorType encoded_type(const std::string& setting, const TensorType& type) {
  const Compression compression = compression_of(setting);
  if (!compression.is_lossy() || type.dtype != DType::kF32) return type;
  const std::size_t bytes = make_codec(compression)->bytes(static_cast<std::size_t>(type.shape.elements()));
  if (bytes >= type.bytes()) return type;
  return {DType::kU8, Shape{static_cast<std::int64_t>(bytes)}};
}

bool is_lossy(const TransportSettings& transport) {
  return compression_of(transport.activations).is_lossy() || compression_of(transport.gradients).is_lossy();
}

}  // namespace

EdgeEncoding::EdgeEncoding(TransportSettings settings, std::set<std::string> data)
    : all_(std::move(settings)), data_(std::move(data)) {}

void EdgeEncoding::set(Hop link, TransportSettings transport) {
  links_.insert_or_assign(std::minmax(link.from, link.to), std::move(transport));
}

const TransportSettings& EdgeEncoding::on(Hop link) const {
  const auto found = links_.find(std::minmax(link.from, link.to));
  return found == links_.end() ? all_ : found->second;
}

bool EdgeEncoding::is_lossy() const {
  return rookery::is_lossy(all_) ||
         std::ranges::any_of(links_, [](const auto& link) { return rookery::is_lossy(link.second); });
}

Compression EdgeEncoding::of_activation(Hop hop, const std::string& value, const TensorType& type) const {
  if (activation_type(hop, value, type) == type) return {};
  return compression_of(on(hop).activations);
}

Compression EdgeEncoding::of_gradient(Hop hop, const TensorType& type) const {
  if (gradient_type(hop, type) == type) return {};
  return compression_of(on(hop).gradients);
}

bool EdgeEncoding::feeds_back(Hop hop, const TensorType& type) const {
  const Encoding encoding = of_gradient(hop, type).encoding;
  return encoding == Encoding::kInt8 || encoding == Encoding::kInt4;
}

TensorType EdgeEncoding::activation_type(Hop hop, const std::string& value, const TensorType& type) const {
  return data_.contains(value) ? type : encoded_type(on(hop).activations, type);
}

TensorType EdgeEncoding::gradient_type(Hop hop, const TensorType& type) const {
  return encoded_type(on(hop).gradients, type);
}

std::set<std::string> input_names(const Graph& model) {
  std::set<std::string> names;
  for (const ValueId id : model.inputs()) names.insert(model.value(id).name);
  return names;
}

}  // namespace rookery
