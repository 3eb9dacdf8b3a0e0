// Resize (https://onnx.ai/onnx/operators/onnx__Resize.html), nearest and linear, by given scales.

#include <algorithm>
#include <cmath>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/parse.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/element_ranges.hpp"
#include "models/graph/ops/families.hpp"
#include "models/graph/ops/resize.hpp"

namespace rookery {
namespace {

enum class Coordinates : std::uint8_t { kHalfPixel, kPytorchHalfPixel, kAsymmetric, kAlignCorners };
enum class Rounding : std::uint8_t { kPreferFloor, kPreferCeil, kFloor, kCeil };

template <typename Meaning>
Meaning meaning_of(const Op& op, const char* key, const std::vector<std::pair<std::string, Meaning>>& words) {
  const std::string word = op.text(key, words.front().first);
  for (const auto& [name, meaning] : words) {
    if (word == name) return meaning;
  }
  throw ConfigError(fmt::format("{} '{}' is not supported", key, word));
}

// The first of each is ONNX's default.
bool is_linear(const Op& op) {
  return meaning_of<bool>(op, "mode", {{"nearest", false}, {"linear", true}});
}

Coordinates coordinates_of(const Op& op) {
  using enum Coordinates;
  return meaning_of<Coordinates>(op, "coordinate_transformation_mode",
                                 {{"half_pixel", kHalfPixel},
                                  {"pytorch_half_pixel", kPytorchHalfPixel},
                                  {"asymmetric", kAsymmetric},
                                  {"align_corners", kAlignCorners}});
}

Rounding rounding_of(const Op& op) {
  using enum Rounding;
  return meaning_of<Rounding>(op, "nearest_mode",
                              {{"round_prefer_floor", kPreferFloor},
                               {"round_prefer_ceil", kPreferCeil},
                               {"floor", kFloor},
                               {"ceil", kCeil}});
}

std::vector<float> scales_of(const Op& op) {
  const auto found = op.attributes.find("scales");
  const auto* scales =
      found == op.attributes.end() ? nullptr : std::get_if<std::vector<float>>(&found->second);
  if (scales == nullptr) throw ConfigError("has no numbers as attribute 'scales'");
  return *scales;
}

// Whether the scale, which is written as a float, is that of the sizes.
bool is_of_sizes(float scale, std::int64_t from, std::int64_t to) {
  return static_cast<float>(static_cast<double>(to) / static_cast<double>(from)) == scale;
}

// The place in the input of element `at` of the output. A scale that is that of the sizes is taken to be it
// exactly: places of pixels are then met.
double place_of(Coordinates coordinates, std::int64_t at, float scale, std::int64_t from, std::int64_t to) {
  const auto x = static_cast<double>(at);
  const auto unscaled = [&](double place) {
    return is_of_sizes(scale, from, to) ? place * static_cast<double>(from) / static_cast<double>(to)
                                        : place / static_cast<double>(scale);
  };
  switch (coordinates) {
    case Coordinates::kPytorchHalfPixel:
      if (to == 1) return 0;
      [[fallthrough]];
    case Coordinates::kHalfPixel:
      return unscaled(x + 0.5) - 0.5;
    case Coordinates::kAsymmetric:
      return unscaled(x);
    case Coordinates::kAlignCorners:
      return to == 1 ? 0 : x * static_cast<double>(from - 1) / static_cast<double>(to - 1);
  }
  ROOKERY_CHECK(false, "coordinates {}", static_cast<int>(coordinates));
}

double rounded(Rounding rounding, double x) {
  switch (rounding) {
    case Rounding::kPreferFloor:
      return std::ceil(x - 0.5);
    case Rounding::kPreferCeil:
      return std::floor(x + 0.5);
    case Rounding::kFloor:
      return std::floor(x);
    case Rounding::kCeil:
      return std::ceil(x);
  }
  ROOKERY_CHECK(false, "rounding {}", static_cast<int>(rounding));
}

std::vector<TensorType> infer_resize(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() != 1 || inputs[0].dtype != DType::kF32) throw ConfigError("needs one input, of f32");
  return {{DType::kF32, resized_shape(op, inputs[0].shape)}};
}

void differentiate_resize(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  builder.add(builder.phase_for(op.inputs[0]), op, "ResizeGrad", {dy}, {op.inputs[0]});
}

double resize_flops(const Op& op, std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  const auto elements = std::max(inputs[0].shape.elements(), outputs[0].shape.elements());
  return (is_linear(op) ? 11.0 : 1.0) * static_cast<double>(elements);
}

}  // namespace

double resized(std::int64_t size, float scale) {
  // A size may have been made a scale, which the nearest float is perhaps a little below.
  constexpr double kRoundedUp = 1 + 0x1p-23;
  return std::floor(static_cast<double>(size) * scale * kRoundedUp);
}

Shape resized_shape(const Op& op, const Shape& shape) {
  is_linear(op);
  coordinates_of(op);
  rounding_of(op);
  if (shape.rank() != 3 && shape.rank() != 4)
    throw ConfigError("its input must be f32[batch, channels, width] or f32[batch, channels, height, width]");
  const std::vector<float> scales = scales_of(op);
  if (std::ssize(scales) != shape.rank() || scales[0] != 1 || scales[1] != 1)
    throw ConfigError(fmt::format("needs {} scales, the first two of them 1", shape.rank()));
  std::vector<std::int64_t> dims{shape[0], shape[1]};
  for (int axis = 2; axis < shape.rank(); ++axis) {
    const float scale = scales[axis];
    const double size = resized(shape[axis], scale);
    if (!(scale > 0) || !(size >= 1 && size <= 0x1p40))
      throw ConfigError(fmt::format("a scale of {} for an axis of {}", scale, shape[axis]));
    dims.push_back(static_cast<std::int64_t>(size));
  }
  return checked_shape(dims);
}

// The nearest element as PyTorch finds it (ATen/native/UpSample.h, nearest_neighbor_compute_source_index), in
// floats: 6 elements of 5 are met exactly, which a double just misses. What files hold as a float was a
// double.
double nearest_of_torch(std::int64_t at, float scale, std::int64_t from, std::int64_t to) {
  const float step = is_of_sizes(scale, from, to)
                         ? static_cast<float>(from) / static_cast<float>(to)
                         : static_cast<float>(1 / number_from<double>(fmt::to_string(scale)).value());
  return std::floor(static_cast<float>(at) * step);
}

std::vector<Sample> samples_along(const Op& op, int axis, std::int64_t from, std::int64_t to) {
  const float scale = scales_of(op).at(axis);
  const Coordinates coordinates = coordinates_of(op);
  const Rounding rounding = rounding_of(op);
  const bool linear = is_linear(op);
  const bool is_of_torch = coordinates == Coordinates::kAsymmetric && rounding == Rounding::kFloor;
  const auto last = static_cast<double>(from - 1);
  std::vector<Sample> samples;
  for (std::int64_t at = 0; at < to; ++at) {
    const double x = place_of(coordinates, at, scale, from, to);
    const double nearest = is_of_torch ? nearest_of_torch(at, scale, from, to) : rounded(rounding, x);
    const double low = std::clamp(linear ? std::floor(x) : nearest, 0.0, last);
    const double high = linear ? std::min(low + 1, last) : low;
    const double weight = linear ? std::clamp(x, 0.0, last) - low : 0;
    samples.push_back(
        {static_cast<std::int64_t>(low), static_cast<std::int64_t>(high), static_cast<float>(weight)});
  }
  return samples;
}

std::vector<OpDefinition> resize_ops() {
  using enum AttributeKind;
  return {
      {.type = "Resize",
       .description =
           "(X) -> Y: X f32[batch, channels, width] or f32[batch, channels, height, width]; the first two "
           "scales are 1",
       .signature = OpSignature{.inputs = {3, 3},
                                .attributes = {{"coordinate_transformation_mode", kString},
                                               {"mode", kString},
                                               {"nearest_mode", kString}},
                                .constant_inputs = {{1, {"roi", kFloats}}, {2, {"scales", kFloats}}}},
       .infer = infer_resize,
       .differentiate = differentiate_resize,
       .flops = resize_flops},
      {.type = "ResizeGrad", .description = "(dY) -> dX", .flops = resize_flops},
  };
}

}  // namespace rookery
