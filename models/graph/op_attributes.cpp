#include "models/graph/op_attributes.hpp"

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_definition.hpp"

namespace rookery {

bool has_activation(const Op& op) {
  return op.attributes.contains(kActivation);
}

bool is_blocked(const Op& op) {
  return op.integer("blocked", 0) != 0;
}

Shape blocked_shape(const Shape& image) {
  if (image.rank() != 4 || image[1] % kChannelBlock != 0) {
    throw ConfigError(
        fmt::format("{} is no image whose channels make blocks of {}", image.to_string(), kChannelBlock));
  }
  return {image[0], image[1] / kChannelBlock, image[2], image[3], kChannelBlock};
}

Shape plain_shape(const Shape& blocked) {
  if (blocked.rank() != 5 || blocked[4] != kChannelBlock) {
    throw ConfigError(
        fmt::format("{} is no image in blocks of {} channels", blocked.to_string(), kChannelBlock));
  }
  return {blocked[0], blocked[1] * kChannelBlock, blocked[2], blocked[3]};
}

std::vector<TensorType> infer_types(const Op& op, std::span<const TensorType> inputs) {
  const auto& infer = op_definition(op.type).infer;
  if (!is_blocked(op)) return infer(op, inputs);
  std::vector<TensorType> plain(inputs.begin(), inputs.end());
  for (TensorType& type : plain) {
    if (type.shape.rank() == 5) type.shape = plain_shape(type.shape);
  }
  std::vector<TensorType> outputs = infer(op, plain);
  for (TensorType& type : outputs) {
    if (type.shape.rank() == 4) type.shape = blocked_shape(type.shape);
  }
  return outputs;
}

}  // namespace rookery
