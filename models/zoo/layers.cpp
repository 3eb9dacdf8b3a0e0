#include "models/zoo/layers.hpp"

#include <algorithm>
#include <cmath>

namespace rookery {

LayerStart normal_start(float deviation) {
  return {.weight = Initializer{.kind = Initializer::Kind::kNormal, .bound = deviation},
          .bias = Initializer{.kind = Initializer::Kind::kZeros}};
}

std::int64_t scaled(std::int64_t channels, double width) {
  constexpr std::int64_t kStep = 8;
  if (width == 1) return channels;
  const double wanted = static_cast<double>(channels) * width;
  const auto steps = static_cast<std::int64_t>(wanted + kStep / 2.0) / kStep;
  const std::int64_t rounded = std::max(kStep, steps * kStep);
  return static_cast<double>(rounded) < 0.9 * wanted ? rounded + kStep : rounded;
}

ValueId conv_norm(GraphBuilder& net, const std::string& conv, const std::string& norm, ValueId x,
                  std::int64_t channels, GraphBuilder::ConvOptions options, float epsilon) {
  options.bias = false;
  if (!options.start.weight) {
    std::int64_t fan_out = channels;
    for (std::size_t axis = 0; axis < 2; ++axis)
      fan_out *= options.kernel.sizes[std::min(axis, options.kernel.sizes.size() - 1)];
    options.start = normal_start(static_cast<float>(std::sqrt(2.0 / static_cast<double>(fan_out))));
  }
  return net.batch_norm(norm, net.conv2d(conv, x, channels, options), epsilon);
}

ValueId add_dropped(GraphBuilder& net, const std::string& name, ValueId x, ValueId y, float dropout) {
  return net.add(name + ".add", x, net.dropout(name + ".dropout", y, dropout));
}

}  // namespace rookery
