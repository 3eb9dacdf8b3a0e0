// Losses, operators of our own:
//
//   (prediction f32[n, …], target, sample ids i64[n], counted i64[1]) -> loss f32[], hits i64[2]
//
// They follow PyTorch's definitions. A target is of the prediction's type or, as i64, holds class indices:
// those of others than the model's classes are a DataError. NaN in prediction or target makes the loss NaN.
// `sample ids` takes no part in the arithmetic: with it the ids travel to the stage that has the target.
//
// The loss is the mean over the micro-batch, so that the batch's is the sum of the micro-batches', times
// StepContext::loss_weight each. With ignore_index that needs `counted`, the number of positions of the whole
// batch that count: the loss is the sum over the micro-batch / (counted * loss_weight), 0 where counted is 0.
// `counted` and ignore_index come together. `hits`, where targets are class indices: positions whose largest
// value, the first of equals, is the label, and positions that count. The attribute `weight` (1) is a factor
// of the gradient; the loss is without it. Gradients are times weight and StepContext::loss_weight.

#include <algorithm>
#include <cmath>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/gradient_builder.hpp"
#include "models/graph/ops/families.hpp"

namespace rookery {
namespace {

enum : std::size_t { kPrediction, kTarget, kIds, kCounted };

// Without a class axis: i64[positions] for predictions [positions…, classes, …].
Shape without_axis(const Shape& shape, int axis) {
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims.erase(dims.begin() + axis);
  return Shape(std::span<const std::int64_t>(dims));
}

void check_prediction(std::span<const TensorType> inputs) {
  if (inputs.size() < 2 || inputs[kPrediction].dtype != DType::kF32 || inputs[kPrediction].shape.rank() < 1)
    throw ConfigError("needs predictions f32[batch, …] and targets");
}

[[noreturn]] void refuse_target(std::span<const TensorType> inputs, const std::string& wanted) {
  throw ConfigError(fmt::format("targets of {} for predictions of {}: they must be {}",
                                inputs[kTarget].to_string(), inputs[kPrediction].to_string(), wanted));
}

// The loss, and for targets that are class indices the hits.
std::vector<TensorType> results(std::span<const TensorType> inputs) {
  if (inputs[kTarget].dtype != DType::kI64) return {{DType::kF32, Shape()}};
  return {{DType::kF32, Shape()}, {DType::kI64, {2}}};
}

std::vector<TensorType> infer_distance(const Op&, std::span<const TensorType> inputs) {
  check_prediction(inputs);
  if (inputs[kTarget] != inputs[kPrediction]) refuse_target(inputs, inputs[kPrediction].to_string());
  return results(inputs);
}

std::vector<TensorType> infer_mse(const Op& op, std::span<const TensorType> inputs) {
  check_prediction(inputs);
  const Shape& shape = inputs[kPrediction].shape;
  if (inputs[kTarget].dtype != DType::kI64) return infer_distance(op, inputs);
  if (shape.rank() != 2 || inputs[kTarget].shape != Shape{shape[0]})
    refuse_target(inputs, "of its type, or class indices i64[batch] for f32[batch, classes]");
  return results(inputs);
}

std::vector<TensorType> infer_bce(const Op& op, std::span<const TensorType> inputs) {
  std::vector<TensorType> types = infer_distance(op, inputs);
  const std::vector<float> weights = op.numbers("pos_weight", {});
  const std::int64_t last = inputs[kPrediction].shape[-1];
  if (weights.size() > 1 && std::ssize(weights) != last) {
    throw ConfigError(fmt::format("pos_weight has {} numbers for the {} of the last axis of {}",
                                  weights.size(), last, inputs[kPrediction].to_string()));
  }
  for (const float weight : weights) {
    if (!std::isfinite(weight) || weight < 0)
      throw ConfigError(fmt::format("pos_weight: {} is not a finite number from 0", weight));
  }
  return types;
}

std::vector<TensorType> infer_cross_entropy(const Op& op, std::span<const TensorType> inputs) {
  check_prediction(inputs);
  const TensorType& logits = inputs[kPrediction];
  const TensorType& target = inputs[kTarget];
  const int rank = logits.shape.rank();
  if (rank < 2) throw ConfigError("needs logits f32[batch, …] with an axis of classes");
  const std::int64_t given = op.integer("class_axis", -1);
  const std::int64_t axis = given < 0 ? given + rank : given;
  if (axis < 1 || axis >= rank)
    throw ConfigError(
        fmt::format("class_axis {} is not an axis of {} behind the batch", given, logits.to_string()));
  const float smoothing = op.number("label_smoothing", 0);
  if (!(smoothing >= 0 && smoothing <= 1))
    throw ConfigError(fmt::format("label_smoothing {} is not in [0, 1]", smoothing));
  const TensorType indices{DType::kI64, without_axis(logits.shape, static_cast<int>(axis))};
  if (target != indices && target != logits) {
    const bool other_axis = rank > 2 && target.dtype == DType::kI64 && given != 1 &&
                            target.shape == without_axis(logits.shape, 1);
    refuse_target(
        inputs, fmt::format("class indices {} or probabilities {}{}", indices.to_string(), logits.to_string(),
                            other_axis ? ", unless the classes lie along \"class_axis\": 1" : ""));
  }
  const bool ignores = op.attributes.contains("ignore_index");
  op.integer("ignore_index", 0);  // of the right type
  if (ignores && target == logits) throw ConfigError("ignore_index is for class indices, not probabilities");
  const bool counts = inputs.size() > kCounted && op.inputs[kCounted] != kNoValue;
  if (ignores != counts) throw ConfigError("ignore_index and the number of counted positions come together");
  if (counts && inputs[kCounted] != TensorType{DType::kI64, {1}})
    throw ConfigError(fmt::format("the counted positions are {}, not i64[1]", inputs[kCounted].to_string()));
  std::vector<TensorType> types = results(inputs);
  types.resize(2, {DType::kI64, {2}});
  types.push_back({DType::kF32, indices.shape});
  return types;
}

// The gradient takes the normalizer of every position instead of summing again.
void cross_entropy_to_training(Graph& graph, OpId id) {
  if (graph.op(id).outputs.size() < 2) graph.op(id).outputs.push_back(kNoValue);
  graph.add_output_of(id, graph.op(id).name + ".normalizer");
}

double loss_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  return 3.0 * static_cast<double>(inputs[kPrediction].shape.elements());
}

double exponential_flops(const Op&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  return 12.0 * static_cast<double>(inputs[kPrediction].shape.elements());
}

void differentiate_loss(GradientBuilder& builder, const Op& op) {
  builder.add(Phase::kBackwardInputs, op, op.type + "Grad", {op.inputs[kPrediction], op.inputs[kTarget]},
              {op.inputs[kPrediction]});
}

void differentiate_cross_entropy(GradientBuilder& builder, const Op& op) {
  const ValueId counted = op.inputs.size() > kCounted ? op.inputs[kCounted] : kNoValue;
  builder.add(Phase::kBackwardInputs, op, "CrossEntropyLossGrad",
              {op.inputs[kPrediction], op.inputs[kTarget], op.outputs[2], counted}, {op.inputs[kPrediction]});
}

}  // namespace

std::vector<OpDefinition> loss_ops() {
  std::vector<OpDefinition> definitions{
      {.type = "MseLoss",
       .description =
           "(prediction, target, sample ids?) -> loss, hits?: mean of (x - t)^2. Class indices i64[n] for "
           "f32[n, classes] stand for one-hot vectors",
       .infer = infer_mse,
       .differentiate = differentiate_loss,
       .flops = loss_flops},
      {.type = "L1Loss",
       .description = "(prediction, target, sample ids?) -> loss: mean of |x - t|",
       .infer = infer_distance,
       .differentiate = differentiate_loss,
       .flops = loss_flops},
      {.type = "MeanLoss",
       .description = "(prediction, target, sample ids?) -> loss: mean of x; its target is x itself",
       .infer = infer_distance,
       .differentiate = differentiate_loss,
       .flops = loss_flops},
      {.type = "BceWithLogitsLoss",
       .description =
           "(prediction, target, sample ids?) -> loss: mean of softplus(-x) (1 + (pos_weight - 1) t) + "
           "(1 - t) x; pos_weight: floats, none, one, or one for each of the last axis",
       .infer = infer_bce,
       .differentiate = differentiate_loss,
       .flops = exponential_flops},
      {.type = "CrossEntropyLoss",
       .description =
           R"((prediction, target, sample ids?, counted?) -> loss, hits?, normalizers?: mean over positions
of -sum_c t_c log softmax(x)_c, the classes c lying along class_axis (-1). Target: probabilities, or class indices
of the prediction's shape without that axis. label_smoothing s: t becomes t (1 - s) + s / classes. ignore_index:
positions with this label do not count.
Training form: normalizers f32 of the positions are log sum exp(x).)",
       .infer = infer_cross_entropy,
       .to_training = cross_entropy_to_training,
       .differentiate = differentiate_cross_entropy,
       .flops = exponential_flops},
  };
  const std::size_t count = definitions.size();
  for (std::size_t i = 0; i < count; ++i) {
    definitions[i].is_loss = true;
    const bool is_cross_entropy = definitions[i].type == "CrossEntropyLoss";
    definitions.push_back({.type = definitions[i].type + "Grad",
                           .description = is_cross_entropy
                                              ? "(prediction, target, normalizers, counted?) -> dprediction"
                                              : "(prediction, target) -> dprediction",
                           .flops = definitions[i].flops,
                           .in_place = {kPrediction}});
  }
  return definitions;
}

}  // namespace rookery
