// ReduceL1, ReduceL2, ReduceMax, ReduceMean and ReduceSum over some axes, and CumSum along one
// (https://onnx.ai/onnx/operators/).

#include <array>
#include <set>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/element_ranges.hpp"
#include "models/graph/ops/families.hpp"
#include "models/graph/ops/reduction.hpp"

namespace rookery {

Shape reduced_shape(const Op& op, const Shape& x) {
  const std::vector<std::int64_t> axes = op.integers("axes", {});
  Shape kept = x;
  std::set<std::int64_t> seen;
  for (const std::int64_t axis : axes) {
    if (axis < -x.rank() || axis >= x.rank())
      throw ConfigError(fmt::format("axis {} of rank {}", axis, x.rank()));
    if (!seen.insert(axis < 0 ? axis + x.rank() : axis).second)
      throw ConfigError(fmt::format("axis {} is there twice", axis));
    kept[static_cast<int>(axis)] = 1;
  }
  if (axes.empty()) {
    for (int axis = 0; axis < x.rank(); ++axis) kept[axis] = 1;
  }
  return kept;
}

namespace {

std::vector<TensorType> infer_reduction(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() != 1 || inputs[0].dtype != DType::kF32) throw ConfigError("needs one input, of f32");
  const Shape& x = inputs[0].shape;
  const Shape kept = reduced_shape(op, x);
  const std::int64_t keepdims = op.integer("keepdims", 1);
  if (keepdims != 0 && keepdims != 1) throw ConfigError(fmt::format("keepdims is {}", keepdims));
  const bool needs_elements = op.type == "ReduceMax" || op.type == "ReduceMean";
  if (needs_elements && x.elements() == 0) throw ConfigError("has nothing to reduce");
  if (keepdims == 1) return {{DType::kF32, kept}};
  const std::vector<std::int64_t> axes = op.integers("axes", {});
  std::set<std::int64_t> gone;
  for (const std::int64_t axis : axes) gone.insert(axis < 0 ? axis + x.rank() : axis);
  std::vector<std::int64_t> dims;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!axes.empty() && !gone.contains(axis)) dims.push_back(x[axis]);
  }
  return {{DType::kF32, Shape(dims)}};
}

void differentiate_reduction(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  const ValueId x = op.inputs[0];
  std::vector<ValueId> inputs{dy};
  const bool of_result = op.type == "ReduceL2" || op.type == "ReduceMax";
  if (of_result || op.type == "ReduceL1") inputs.push_back(x);
  if (of_result) inputs.push_back(op.outputs[0]);
  builder.add(builder.phase_for(x), op, op.type + "Grad", std::move(inputs), {x});
}

std::vector<TensorType> infer_cumulative_sum(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() != 1 || inputs[0].dtype == DType::kBool || inputs[0].dtype == DType::kU8)
    throw ConfigError("needs one input, of f32, f64, i64 or i32");
  if (!op.attributes.contains("axis")) throw ConfigError("has no attribute 'axis'");
  axis_of(op.integer("axis", 0), inputs[0].shape.rank());
  for (const char* key : {"exclusive", "reverse"}) {
    if (const std::int64_t flag = op.integer(key, 0); flag != 0 && flag != 1)
      throw ConfigError(fmt::format("{} is {}", key, flag));
  }
  return {inputs[0]};
}

// dX is the sum of the dY that an element went into: those on its other side.
void differentiate_cumulative_sum(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  Op backward = op;
  backward.attributes["reverse"] = 1 - op.integer("reverse", 0);
  builder.add(builder.phase_for(op.inputs[0]), backward, "CumSum", {dy}, {op.inputs[0]});
}

double reduction_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  return static_cast<double>(inputs[0].shape.elements());
}

}  // namespace

std::vector<OpDefinition> reduction_ops() {
  using enum AttributeKind;
  struct Reduction {
    const char* type;
    const char* gradient;  // its description
  };
  static constexpr std::array<Reduction, 5> kReductions{{
      {"ReduceL1", "(dY, X) -> dX"},
      {"ReduceL2", "(dY, X, Y) -> dX: 0 where the norm is 0, as in PyTorch"},
      {"ReduceMax", "(dY, X, Y) -> dX: elements that are equal to the maximum have equal shares of dY"},
      {"ReduceMean", "(dY) -> dX"},
      {"ReduceSum", "(dY) -> dX"},
  }};
  const OpSignature axes_as_attribute{.attributes = {{"axes", kInts}, {"keepdims", kInt}}};
  // The only one whose axes became an input in operator set 13; the others' did in 18.
  const OpSignature axes_as_input{
      .inputs = {1, 2}, .attributes = {{"keepdims", kInt}}, .constant_inputs = {{1, {"axes", kInts}}}};
  std::vector<OpDefinition> definitions;
  for (const auto& [type, gradient] : kReductions) {
    definitions.push_back(
        {.type = type,
         .description = "(X) -> Y: over all axes where the attribute axes is absent or empty",
         .signature = type == std::string("ReduceSum") ? axes_as_input : axes_as_attribute,
         .infer = infer_reduction,
         .differentiate = differentiate_reduction,
         .flops = reduction_flops});
    definitions.push_back({.type = std::string(type) + "Grad", .description = gradient});
  }
  definitions.push_back(
      {.type = "CumSum",
       .description = "(X) -> Y: it is its own gradient operator, (dY) -> dX, from the other side",
       .signature = OpSignature{.inputs = {2, 2},
                                .attributes = {{"exclusive", kInt}, {"reverse", kInt}},
                                .constant_inputs = {{1, {"axis", kInt}}},
                                .any_type = true},
       .infer = infer_cumulative_sum,
       .differentiate = differentiate_cumulative_sum,
       .flops = reduction_flops});
  return definitions;
}

}  // namespace rookery
