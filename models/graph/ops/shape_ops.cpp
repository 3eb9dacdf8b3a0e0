// What gives elements another shape or another order, or repeats them
// (https://onnx.ai/onnx/operators/): Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Expand,
// Tile.

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/broadcast.hpp"
#include "models/graph/ops/element_ranges.hpp"
#include "models/graph/ops/families.hpp"
#include "models/graph/ops/rules.hpp"

namespace rookery {
namespace {

using Integers = std::vector<std::int64_t>;
using Types = std::vector<TensorType>;

Types infer_reshape(const Op& op, std::span<const TensorType> inputs) {
  expect_one(inputs);
  const Shape& from = inputs[0].shape;
  if (!op.attributes.contains("shape")) throw ConfigError("has no attribute 'shape'");
  if (op.integer("allowzero", 0) != 0) throw ConfigError("allowzero is not supported");
  Integers dims = op.integers("shape", {});
  std::size_t open = dims.size();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) {
      if (std::cmp_greater_equal(i, from.rank())) {
        throw ConfigError(
            fmt::format("dimension {} is 0, 'as in the input', which has rank {}", i, from.rank()));
      }
      dims[i] = from[static_cast<int>(i)];
    } else if (dims[i] == -1 && open == dims.size()) {
      open = i;
      dims[i] = 1;
    } else if (dims[i] < 0) {
      throw ConfigError(
          fmt::format("dimension {} is {}; one may be -1, 'what is left'", i, op.integers("shape", {})[i]));
    }
  }
  const std::int64_t elements = from.elements();
  const std::int64_t others = checked_shape(dims).elements();
  if (open < dims.size() && others > 0 && elements % others == 0) dims[open] = elements / others;
  const Shape shape = checked_shape(dims);
  if (shape.elements() != elements) {
    throw ConfigError(fmt::format("{} has {} elements, which do not fit the shape [{}]", from.to_string(),
                                  elements, fmt::join(op.integers("shape", {}), ", ")));
  }
  return {{inputs[0].dtype, shape}};
}

Types infer_flatten(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.empty()) throw ConfigError("needs an input");
  const Shape& shape = inputs[0].shape;
  std::int64_t axis = op.integer("axis", 1);
  if (axis < 0) axis += shape.rank();
  if (axis < 0 || axis > shape.rank())
    throw ConfigError(fmt::format("axis {} of rank {}", axis, shape.rank()));
  const auto rows = shape.dims().first(axis);
  const auto columns = shape.dims().subspan(axis);
  return {{inputs[0].dtype, {Shape(rows).elements(), Shape(columns).elements()}}};
}

void differentiate_flatten(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  builder.add(Phase::kBackwardInputs, op, "FlattenGrad", {dy}, {op.inputs[0]});
}

Types infer_squeeze(const Op& op, std::span<const TensorType> inputs) {
  expect_one(inputs);
  const Shape& from = inputs[0].shape;
  if (!op.attributes.contains("axes")) throw ConfigError("has no attribute 'axes'");
  const std::vector<int> axes = axes_of(op.integers("axes", {}), from.rank());
  Integers dims;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (std::ranges::count(axes, axis) == 0) {
      dims.push_back(from[axis]);
    } else if (from[axis] != 1) {
      throw ConfigError(fmt::format("axis {} has {} elements, not 1", axis, from[axis]));
    }
  }
  return {{inputs[0].dtype, checked_shape(dims)}};
}

Types infer_unsqueeze(const Op& op, std::span<const TensorType> inputs) {
  expect_one(inputs);
  const Integers given = op.integers("axes", {});
  if (given.empty()) throw ConfigError("has no attribute 'axes'");
  if (given.size() > kMaxRank) throw ConfigError(fmt::format("{} axes", given.size()));
  const int rank = inputs[0].shape.rank() + static_cast<int>(given.size());
  const std::vector<int> axes = axes_of(given, rank);
  Integers dims;
  int from = 0;
  for (int axis = 0; axis < rank; ++axis)
    dims.push_back(std::ranges::count(axes, axis) > 0 ? 1 : inputs[0].shape[from++]);
  return {{inputs[0].dtype, checked_shape(dims)}};
}

Types infer_transpose(const Op& op, std::span<const TensorType> inputs) {
  expect_one(inputs);
  Integers dims;
  for (const int axis : permutation_of(op, inputs[0].shape.rank())) dims.push_back(inputs[0].shape[axis]);
  return {{inputs[0].dtype, checked_shape(dims)}};
}

Types infer_expand(const Op& op, std::span<const TensorType> inputs) {
  expect_one(inputs);
  if (!op.attributes.contains("shape")) throw ConfigError("has no attribute 'shape'");
  const Shape shape = checked_shape(op.integers("shape", {}));
  return {{inputs[0].dtype, checked_shape([&] {
             const Shape whole = broadcast(inputs[0].shape, shape);
             return Integers(whole.dims().begin(), whole.dims().end());
           }())}};
}

Types infer_tile(const Op& op, std::span<const TensorType> inputs) {
  expect_one(inputs);
  const Integers repeats = op.integers("repeats", {});
  const Shape& from = inputs[0].shape;
  if (std::ssize(repeats) != from.rank())
    throw ConfigError(fmt::format("{} repeats for {} axes", repeats.size(), from.rank()));
  Integers dims;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 0) throw ConfigError(fmt::format("axis {} is repeated {} times", i, repeats[i]));
    dims.push_back(checked_product(repeats[i], from[static_cast<int>(i)]));
  }
  return {{inputs[0].dtype, checked_shape(dims)}};
}

}  // namespace

std::vector<OpDefinition> shape_ops() {
  using enum AttributeKind;
  // All of these take one tensor in a Graph, and most of them a second, constant one in a file.
  const auto with = [](const char* key) {
    return OpSignature{.inputs = {2, 2}, .constant_inputs = {{1, {key, kInts}}}, .any_type = true};
  };
  OpSignature reshape = with("shape");
  reshape.attributes = {{"allowzero", kInt}};
  return {
      {.type = "Reshape",
       .description = "(X) -> Y: a view. Where the first dimension is the batch the shape has 0 or -1 there",
       .signature = reshape,
       .infer = infer_reshape,
       .differentiate = gradient_by("ReshapeGrad"),
       .is_view = always_view},
      {.type = "Flatten",
       .description = "(X) -> Y: a view",
       .signature = OpSignature{.attributes = {{"axis", kInt}}, .any_type = true},
       .infer = infer_flatten,
       .differentiate = differentiate_flatten,
       .is_view = always_view},
      {.type = "FlattenGrad", .description = "(dY) -> dX: a view", .is_view = always_view},
      {.type = "Squeeze",
       .description = "(X) -> Y: a view",
       .signature = with("axes"),
       .infer = infer_squeeze,
       .differentiate = gradient_by("ReshapeGrad"),
       .is_view = always_view},
      {.type = "Unsqueeze",
       .description = "(X) -> Y: a view",
       .signature = with("axes"),
       .infer = infer_unsqueeze,
       .differentiate = gradient_by("ReshapeGrad"),
       .is_view = always_view},
      {.type = "ReshapeGrad",
       .description = "(dY) -> dX: a view, for Reshape, Squeeze and Unsqueeze",
       .is_view = always_view},
      {.type = "Transpose",
       .description = "(X) -> Y",
       .signature = OpSignature{.attributes = {{"perm", kInts}}, .any_type = true},
       .infer = infer_transpose,
       .differentiate = gradient_by("TransposeGrad")},
      {.type = "TransposeGrad", .description = "(dY) -> dX"},
      {.type = "Expand",
       .description = "(X) -> Y",
       .signature = with("shape"),
       .infer = infer_expand,
       .differentiate = gradient_by("ExpandGrad")},
      {.type = "ExpandGrad", .description = "(dY) -> dX"},
      {.type = "Tile",
       .description = "(X) -> Y",
       .signature = with("repeats"),
       .infer = infer_tile,
       .differentiate = gradient_by("TileGrad")},
      {.type = "TileGrad", .description = "(dY) -> dX"},
  };
}

}  // namespace rookery
