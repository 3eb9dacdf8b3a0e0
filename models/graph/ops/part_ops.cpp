// What joins tensors and takes parts of them (https://onnx.ai/onnx/operators/): Concat, Split, Slice, Pad,
// Trilu.

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/element_ranges.hpp"
#include "models/graph/ops/families.hpp"
#include "models/graph/ops/rules.hpp"

namespace rookery {
namespace {

using Integers = std::vector<std::int64_t>;
using Types = std::vector<TensorType>;

Integers dims_of(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

std::int64_t required_axis(const Op& op) {
  if (!op.attributes.contains("axis")) throw ConfigError("has no attribute 'axis'");
  return op.integer("axis", 0);
}

Types infer_concat(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.empty()) throw ConfigError("needs an input");
  const int rank = inputs[0].shape.rank();
  const int axis = axis_of(required_axis(op), rank);
  Integers dims = dims_of(inputs[0].shape);
  std::int64_t& size = dims[axis];
  for (const TensorType& input : inputs.subspan(1)) {
    bool fits = input.dtype == inputs[0].dtype && input.shape.rank() == rank;
    for (int i = 0; fits && i < rank; ++i) fits = i == axis || input.shape[i] == inputs[0].shape[i];
    if (!fits || __builtin_add_overflow(size, input.shape[axis], &size)) {
      throw ConfigError(fmt::format("{} and {} cannot be joined along axis {}", inputs[0].to_string(),
                                    input.to_string(), axis));
    }
  }
  return {{inputs[0].dtype, checked_shape(dims)}};
}

// One op for all inputs: where a part begins is known from the sizes of those before.
void differentiate_concat(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  builder.add_whole(builder.phase_for(op.inputs), op, "ConcatGrad", {dy}, op.inputs);
}

Types infer_split(const Op& op, std::span<const TensorType> inputs) {
  expect_one(inputs);
  const int axis = axis_of(op.integer("axis", 0), inputs[0].shape.rank());
  Types types;
  for (const std::int64_t size : split_of(op, inputs[0].shape[axis], op.outputs.size())) {
    types.push_back(inputs[0]);
    types.back().shape[axis] = size;
  }
  return types;
}

void differentiate_split(GradientBuilder& builder, const Op& op) {
  std::vector<ValueId> gradients;
  for (const ValueId output : op.outputs) gradients.push_back(builder.gradient_of(output));
  if (std::ranges::all_of(gradients, [](ValueId id) { return id == kNoValue; })) return;
  builder.add(builder.phase_for(op.inputs[0]), op, "SplitGrad", gradients, {op.inputs[0]});
}

Types infer_slice(const Op& op, std::span<const TensorType> inputs) {
  expect_one(inputs);
  Integers dims;
  for (const AxisRange& range : slice_of(op, inputs[0].shape)) dims.push_back(range.size);
  return {{inputs[0].dtype, checked_shape(dims)}};
}

Types infer_pad(const Op& op, std::span<const TensorType> inputs) {
  expect_one(inputs);
  const Padding padding = padding_of(op, inputs[0].shape);
  op.number("constant_value", 0);
  if (op.attributes.contains("constant_value") && inputs[0].dtype != DType::kF32)
    throw ConfigError("a constant_value is for inputs of f32");
  Integers dims = dims_of(inputs[0].shape);
  for (std::size_t axis = 0; axis < dims.size(); ++axis)
    dims[axis] += padding.begin[axis] + padding.end[axis];
  return {{inputs[0].dtype, checked_shape(dims)}};
}

Types infer_trilu(const Op& op, std::span<const TensorType> inputs) {
  expect_one(inputs);
  op.integer("k", 0);
  op.integer("upper", 1);
  if (inputs[0].shape.rank() < 2) throw ConfigError("needs matrices");
  return {inputs[0]};
}

}  // namespace

std::vector<OpDefinition> part_ops() {
  using enum AttributeKind;
  return {
      {.type = "Concat",
       .description = "(X…) -> Y",
       .signature =
           OpSignature{.inputs = {1, kManyTensors}, .attributes = {{"axis", kInt}}, .any_type = true},
       .infer = infer_concat,
       .differentiate = differentiate_concat,
       .images = {kEveryInput}},
      {.type = "ConcatGrad", .description = "(dY) -> dX…: one for every input"},
      {.type = "Split",
       .description = "(X) -> Y…",
       .signature = OpSignature{.inputs = {1, 2},
                                .attributes = {{"axis", kInt}},
                                .constant_inputs = {{1, {"split", kInts}}},
                                .most_outputs = kManyTensors,
                                .any_type = true},
       .infer = infer_split,
       .differentiate = differentiate_split},
      {.type = "SplitGrad", .description = "(dY?…) -> dX: an absent dY is zeros"},
      {.type = "Slice",
       .description = "(X) -> Y",
       .signature = OpSignature{.inputs = {3, 5},
                                .constant_inputs = {{1, {"starts", kInts}},
                                                    {2, {"ends", kInts}},
                                                    {3, {"axes", kInts}},
                                                    {4, {"steps", kInts}}},
                                .any_type = true},
       .infer = infer_slice,
       .differentiate = gradient_by("SliceGrad")},
      {.type = "SliceGrad", .description = "(dY) -> dX"},
      {.type = "Pad",
       .description = "(X) -> Y",
       .signature = OpSignature{.inputs = {2, 3},
                                .attributes = {{"mode", kString}},
                                .constant_inputs = {{1, {"pads", kInts}}, {2, {"constant_value", kFloat}}},
                                .any_type = true},
       .infer = infer_pad,
       .differentiate = gradient_by("PadGrad")},
      {.type = "PadGrad", .description = "(dY) -> dX"},
      {.type = "Trilu",
       .description = "(X) -> Y: it is its own gradient operator, (dY) -> dX",
       .signature = OpSignature{.inputs = {1, 2},
                                .attributes = {{"upper", kInt}},
                                .constant_inputs = {{1, {"k", kInt}}},
                                .any_type = true},
       .infer = infer_trilu,
       .differentiate = gradient_by("Trilu"),
       .in_place = {0}},
  };
}

}  // namespace rookery
