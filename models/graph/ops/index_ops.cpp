// Elements chosen by indices (https://onnx.ai/onnx/operators/): Gather, GatherElements, GatherND, ScatterND.

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/element_ranges.hpp"
#include "models/graph/ops/families.hpp"

namespace rookery {
namespace {

using Types = std::vector<TensorType>;

bool is_index(DType type) {
  return type == DType::kI64 || type == DType::kI32;
}

void expect_indices(std::span<const TensorType> inputs) {
  if (inputs.size() != 2 || !is_index(inputs[1].dtype))
    throw ConfigError("needs data, and indices of i64 or i32");
}

Types infer_gather(const Op& op, std::span<const TensorType> inputs) {
  expect_indices(inputs);
  const Shape& data = inputs[0].shape;
  const int axis = axis_of(op.integer("axis", 0), data.rank());
  std::vector<std::int64_t> dims;
  for (int i = 0; i < axis; ++i) dims.push_back(data[i]);
  dims.insert(dims.end(), inputs[1].shape.dims().begin(), inputs[1].shape.dims().end());
  for (int i = axis + 1; i < data.rank(); ++i) dims.push_back(data[i]);
  return {{inputs[0].dtype, checked_shape(dims)}};
}

Types infer_gather_elements(const Op& op, std::span<const TensorType> inputs) {
  expect_indices(inputs);
  const Shape& data = inputs[0].shape;
  const Shape& indices = inputs[1].shape;
  const int axis = axis_of(op.integer("axis", 0), data.rank());
  bool fits = data.rank() == indices.rank();
  for (int i = 0; fits && i < data.rank(); ++i) fits = i == axis || indices[i] <= data[i];
  if (!fits) {
    throw ConfigError(fmt::format("indices of {} do not fit data of {} along axis {}", indices.to_string(),
                                  data.to_string(), axis));
  }
  return {{inputs[0].dtype, indices}};
}

// Dimensions that the indices of a GatherND or ScatterND (whose batch_dims is 0) choose slices by: all but
// their last, then those of the data that a point of as many indices as their last leaves.
Shape slices_at(const Shape& data, const Shape& indices, std::int64_t batch_dims) {
  const std::int64_t depth = indices.rank() == 0 ? 0 : indices[-1];
  bool fits =
      batch_dims >= 0 && batch_dims < indices.rank() && depth >= 1 && depth <= data.rank() - batch_dims;
  for (int i = 0; fits && i < batch_dims; ++i) fits = data[i] == indices[i];
  if (!fits) {
    throw ConfigError(fmt::format("indices of {} do not fit data of {} with batch_dims {}",
                                  indices.to_string(), data.to_string(), batch_dims));
  }
  std::vector<std::int64_t> dims(indices.dims().begin(), indices.dims().end() - 1);
  const auto left = data.dims().subspan(batch_dims + depth);
  dims.insert(dims.end(), left.begin(), left.end());
  return checked_shape(dims);
}

Types infer_gather_nd(const Op& op, std::span<const TensorType> inputs) {
  expect_indices(inputs);
  return {{inputs[0].dtype, slices_at(inputs[0].shape, inputs[1].shape, op.integer("batch_dims", 0))}};
}

Types infer_scatter_nd(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() != 3 || !is_index(inputs[1].dtype) || inputs[2].dtype != inputs[0].dtype)
    throw ConfigError("needs data, indices of i64 or i32, and updates of the data's type");
  const std::string reduction = op.text("reduction", "none");
  if (reduction != "none" && reduction != "add")
    throw ConfigError(fmt::format("reduction is '{}', not 'none' or 'add'", reduction));
  if (reduction == "add" && !is_floating(inputs[0].dtype) && !is_index(inputs[0].dtype))
    throw ConfigError(fmt::format("adds {}, not numbers", name_of(inputs[0].dtype)));
  const Shape updates = slices_at(inputs[0].shape, inputs[1].shape, 0);
  if (inputs[2].shape != updates) {
    throw ConfigError(
        fmt::format("updates are {}, not {}", inputs[2].shape.to_string(), updates.to_string()));
  }
  return {inputs[0]};
}

void differentiate_scatter_nd(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  const ValueId indices = op.inputs[1];
  // The last input first, as everywhere where gradients are summed.
  builder.add(builder.phase_for(op.inputs[2]), op, "ScatterNDGradUpdates", {dy, indices}, {op.inputs[2]});
  const bool adds = op.text("reduction", "none") == "add";
  const std::vector<ValueId> inputs = adds ? std::vector{dy} : std::vector{dy, indices};
  builder.add(builder.phase_for(op.inputs[0]), op, adds ? "Identity" : "ScatterNDGradData", inputs,
              {op.inputs[0]});
}

auto gradient_at_indices(const char* type) {
  return [type](GradientBuilder& builder, const Op& op) {
    const ValueId dy = builder.gradient_of(op.outputs[0]);
    if (dy == kNoValue) return;
    builder.add(builder.phase_for(op.inputs[0]), op, type, {dy, op.inputs[1]}, {op.inputs[0]});
  };
}

}  // namespace

std::vector<OpDefinition> index_ops() {
  using enum AttributeKind;
  return {
      {.type = "Gather",
       .description =
           "(data, indices) -> Y: its attribute padding_idx, which ONNX does not have, is the row of the "
           "data that gets no gradient (-1: none)",
       .signature = OpSignature{.inputs = {2, 2}, .attributes = {{"axis", kInt}}, .any_type = true},
       .infer = infer_gather,
       .differentiate = gradient_at_indices("GatherGrad")},
      {.type = "GatherGrad", .description = "(dY, indices) -> ddata"},
      {.type = "GatherElements",
       .description = "(data, indices) -> Y",
       .signature = OpSignature{.inputs = {2, 2}, .attributes = {{"axis", kInt}}, .any_type = true},
       .infer = infer_gather_elements,
       .differentiate = gradient_at_indices("GatherElementsGrad")},
      {.type = "GatherElementsGrad", .description = "(dY, indices) -> ddata"},
      {.type = "GatherND",
       .description = "(data, indices) -> Y",
       .signature = OpSignature{.inputs = {2, 2}, .attributes = {{"batch_dims", kInt}}, .any_type = true},
       .infer = infer_gather_nd,
       .differentiate = gradient_at_indices("GatherNDGrad")},
      {.type = "GatherNDGrad", .description = "(dY, indices) -> ddata"},
      {.type = "ScatterND",
       .description = "(data, indices, updates) -> Y",
       .signature = OpSignature{.inputs = {3, 3}, .attributes = {{"reduction", kString}}, .any_type = true},
       .infer = infer_scatter_nd,
       .differentiate = differentiate_scatter_nd},
      {.type = "ScatterNDGradData",
       .description = "(dY, indices) -> ddata: 0 where updates were written. Where they were added it is "
                      "Identity(dY) instead"},
      {.type = "ScatterNDGradUpdates",
       .description =
           "(dY, indices) -> dupdates: as in PyTorch's index_put_, an update that a later one overwrote "
           "has a gradient, too"},
  };
}

}  // namespace rookery
