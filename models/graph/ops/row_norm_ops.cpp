// Normalizations whose statistics are of one sample: LayerNormalization, GroupNormalization (with a scale
// per channel, as from opset 21 on) and InstanceNormalization (https://onnx.ai/onnx/operators/).

#include <cmath>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/families.hpp"

namespace rookery {
namespace {

enum RowNormInput : std::size_t { kX, kScale, kBias };

void check_epsilon(const Op& op) {
  const float epsilon = op.number("epsilon", 1e-5F);
  if (!(epsilon >= 0) || std::isinf(epsilon)) throw ConfigError(fmt::format("its epsilon is {}", epsilon));
}

bool all_floats(std::span<const TensorType> inputs) {
  for (const TensorType& type : inputs) {
    if (type.dtype != DType::kF32) return false;
  }
  return true;
}

// Mean and inverse deviation have the dimensions of X before the axis, and ones.
std::vector<TensorType> infer_layer_norm(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() < 2 || inputs.size() > 3 || !all_floats(inputs))
    throw ConfigError("needs an input, a scale and perhaps a bias, of f32");
  check_epsilon(op);
  const Shape& x = inputs[kX].shape;
  const std::int64_t axis = op.integer("axis", -1);
  if (axis < -x.rank() || axis >= x.rank())
    throw ConfigError(fmt::format("axis {} of rank {}", axis, x.rank()));
  const auto first = static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis);
  const Shape normalized(x.dims().subspan(first));
  const bool has_bias = inputs.size() > kBias && op.inputs[kBias] != kNoValue;
  for (std::size_t i = kScale; i <= (has_bias ? kBias : kScale); ++i) {
    if (inputs[i].shape != normalized)
      throw ConfigError(fmt::format("input {} must be f32{}", i, normalized.to_string()));
  }
  Shape rows = x;
  for (auto i = static_cast<int>(first); i < x.rank(); ++i) rows[i] = 1;
  return {inputs[kX], {DType::kF32, rows}, {DType::kF32, rows}};
}

// Mean and inverse deviation are f32[batch, groups].
std::vector<TensorType> infer_group_norm(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() != 3 || !all_floats(inputs) || inputs[kX].shape.rank() < 2)
    throw ConfigError("needs an input f32[batch, channels, ...], scale and bias");
  check_epsilon(op);
  const Shape& x = inputs[kX].shape;
  const bool is_instance = op.type == "InstanceNormalization";
  const std::int64_t groups = is_instance ? x[1] : op.integer("num_groups", 0);
  if (groups < 1 || x[1] % groups != 0)
    throw ConfigError(fmt::format("{} groups of {} channels", groups, x[1]));
  for (const std::size_t i : {kScale, kBias}) {
    if (inputs[i].shape != Shape{x[1]}) throw ConfigError(fmt::format("input {} must be f32[{}]", i, x[1]));
  }
  return {inputs[kX], {DType::kF32, {x[0], groups}}, {DType::kF32, {x[0], groups}}};
}

void keep_statistics(Graph& graph, OpId id) {
  const std::string name = graph.op(id).name;
  graph.add_output_of(id, name + ".saved_mean");
  graph.add_output_of(id, name + ".saved_inverse_deviation");
}

void differentiate_row_norm(GradientBuilder& builder, const Op& op) {
  const ValueId dy = builder.gradient_of(op.outputs[0]);
  if (dy == kNoValue) return;
  const ValueId bias = op.inputs.size() > kBias ? op.inputs[kBias] : kNoValue;
  builder.add(Phase::kBackwardInputs, op, op.type + "Grad",
              {dy, op.inputs[kX], op.inputs[kScale], op.outputs[1], op.outputs[2]},
              {op.inputs[kX], op.inputs[kScale], bias});
}

double row_norm_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  return 8.0 * static_cast<double>(inputs[kX].shape.elements());
}

}  // namespace

std::vector<OpDefinition> row_norm_ops() {
  using enum AttributeKind;
  // GroupNormalization with a scale for each channel is of operator set 21, so that files have it as a
  // function.
  std::vector<OpDefinition> definitions{
      {.type = "LayerNormalization",
       .description = R"((X, scale, bias?) -> Y, saved mean?, saved inverse deviation?
Training form: saved mean and saved inverse deviation are ONNX's second and third output.)",
       .signature = OpSignature{.inputs = {2, 3}, .attributes = {{"axis", kInt}, {"epsilon", kFloat}}},
       .infer = infer_layer_norm},
      {.type = "GroupNormalization",
       .description =
           R"((X, scale, bias) -> Y, saved mean?, saved inverse deviation?: scale and bias of each channel.
Training form: saved mean and saved inverse deviation are f32[batch, groups].)",
       .infer = infer_group_norm},
      {.type = "InstanceNormalization",
       .description = R"((X, scale, bias) -> Y, saved mean?, saved inverse deviation?
Training form: saved mean and saved inverse deviation are f32[batch, channels].)",
       .signature = OpSignature{.inputs = {3, 3}, .attributes = {{"epsilon", kFloat}}},
       .infer = infer_group_norm},
  };
  const std::size_t count = definitions.size();
  for (std::size_t i = 0; i < count; ++i) {
    definitions[i].to_training = keep_statistics;
    definitions[i].differentiate = differentiate_row_norm;
    definitions[i].flops = row_norm_flops;
    definitions[i].in_place = {0};
    definitions.push_back(
        {.type = definitions[i].type + "Grad",
         .description = "(dY, X, scale, saved mean, saved inverse deviation) -> dX, dscale, dbias",
         .flops = row_norm_flops,
         .in_place = {0}});
  }
  return definitions;
}

}  // namespace rookery
