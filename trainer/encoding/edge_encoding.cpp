#include "trainer/encoding/edge_encoding.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "trainer/encoding/codec.hpp"

namespace rookery {
namespace {

Compression compression_of(const std::string& setting) {
  if (is_delta(setting)) return parse_compression(encoding_of_delta(setting));
  return setting == kAutoTransport ? Compression() : parse_compression(setting);
}

// The bytes of a row of a batch of samples.
std::size_t row_bytes(const std::string& setting, const TensorType& type) {
  const std::int64_t rows = type.shape[0];
  return make_codec(compression_of(setting))->bytes(static_cast<std::size_t>(type.shape.elements() / rows));
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

EdgeEncoding::EdgeEncoding(TransportSettings settings, std::set<std::string> data, std::int64_t samples)
    : all_(std::move(settings)), data_(std::move(data)), samples_(samples) {}

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

bool EdgeEncoding::has_deltas() const {
  return rookery::is_delta(all_.activations) || std::ranges::any_of(links_, [](const auto& link) {
           return rookery::is_delta(link.second.activations);
         });
}

bool EdgeEncoding::is_delta(Hop hop, const std::string& value, const TensorType& type) const {
  const std::string& setting = on(hop).activations;
  if (!rookery::is_delta(setting) || data_.contains(value) || type.dtype != DType::kF32) return false;
  return type.shape.rank() > 0 && row_bytes(setting, type) < row_bytes(kFirstOfDelta, type);
}

EdgeEncoding EdgeEncoding::first_of_deltas() const {
  EdgeEncoding first = *this;
  const auto replace = [](TransportSettings& settings) {
    if (rookery::is_delta(settings.activations)) settings.activations = kFirstOfDelta;
  };
  replace(first.all_);
  for (auto& link : first.links_) replace(link.second);
  return first;
}

Compression EdgeEncoding::of_activation(Hop hop, const std::string& value, const TensorType& type) const {
  if (activation_type(hop, value, type) == type) return {};
  const std::string& setting = on(hop).activations;
  return compression_of(rookery::is_delta(setting) && !is_delta(hop, value, type) ? kFirstOfDelta : setting);
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
  if (data_.contains(value)) return type;
  const std::string& setting = on(hop).activations;
  if (!rookery::is_delta(setting)) return encoded_type(setting, type);
  if (!is_delta(hop, value, type)) return encoded_type(kFirstOfDelta, type);
  return {DType::kU8, Shape{type.shape[0] * static_cast<std::int64_t>(row_bytes(setting, type))}};
}

TensorType EdgeEncoding::largest_activation_type(Hop hop, const std::string& value,
                                                 const TensorType& type) const {
  return is_delta(hop, value, type) ? encoded_type(kFirstOfDelta, type) : activation_type(hop, value, type);
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
