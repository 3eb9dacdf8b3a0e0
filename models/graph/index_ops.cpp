// Elements chosen by indices (https://onnx.ai/onnx/operators/): Gather, GatherElements.
#include <fmt/format.h>

#include "models/base/error.hpp"
#include "models/graph/differentiate.hpp"
#include "models/graph/ops.hpp"
#include "models/graph/regions.hpp"

namespace rookery {
namespace {

using Types = std::vector<TensorType>;

void expect_indices(std::span<const TensorType> inputs) {
  if (inputs.size() != 2 || (inputs[1].dtype != DType::kI64 && inputs[1].dtype != DType::kI32))
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

auto gradient_by(const char* type) {
  return [type](GradientBuilder& builder, const Op& op) {
    const ValueId dy = builder.gradient_of(op.outputs[0]);
    if (dy == kNoValue) return;
    builder.add(builder.phase_for(op.inputs[0]), op, type, {dy, op.inputs[1]}, {op.inputs[0]});
  };
}

}  // namespace

std::vector<OpDefinition> index_ops() {
  return {
      {.type = "Gather", .infer = infer_gather, .differentiate = gradient_by("GatherGrad")},
      {.type = "GatherGrad"},
      {.type = "GatherElements",
       .infer = infer_gather_elements,
       .differentiate = gradient_by("GatherElementsGrad")},
      {.type = "GatherElementsGrad"},
  };
}

}  // namespace rookery
