#include "models/graph/passes/loss.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/named_rows.hpp"
#include "models/graph/op_definition.hpp"

namespace rookery {
namespace {

std::optional<std::int64_t> class_axis_of_mse(const LossTerm& /*term*/, int rank) {
  return rank == 2 ? std::optional<std::int64_t>(1) : std::nullopt;
}

std::optional<std::int64_t> class_axis_of_cross_entropy(const LossTerm& term, int rank) {
  if (rank <= 1) return std::nullopt;
  return term.class_axis + (term.class_axis < 0 ? rank : 0);
}

const LossKind& kind_of(const LossTerm& term) {
  const LossKind* kind = find_row(loss_kinds(), term.name);
  if (kind != nullptr) return *kind;
  throw ConfigError(
      fmt::format("loss '{}' is unknown; there are: {}", term.name, fmt::join(names_of(loss_kinds()), ", ")));
}

class LossBuilder {
 public:
  LossBuilder(Graph& graph, const LossSettings& loss, const ValueTypes& types)
      : graph_(graph), loss_(loss), types_(types) {
    for (const ValueId output : graph.outputs()) outputs_.push_back(graph.value(output).name);
  }

  void add(const LossTerm& term) {
    const LossKind& kind = kind_of(term);
    const ValueId prediction = output_of(term);
    const std::string name = loss_value(loss_, term);
    if (graph_.has_op(name)) {
      throw ConfigError(
          fmt::format("'{}' of output '{}' is there twice: give one with the sum of the weights", term.name,
                      graph_.value(prediction).name));
    }
    const ValueId target = kind.has_target ? target_of(term, prediction) : prediction;
    Op op{.name = name, .type = kind.op_type, .inputs = {prediction, target, sample_ids()}};
    if (term.weight != 1) op.attributes["weight"] = static_cast<float>(term.weight);
    for (const LossOption option : kind.options) set_attribute(term, option, op);
    if (op.attributes.contains("ignore_index"))
      op.inputs.push_back(graph_.add_input(counted_value(loss_, term), {DType::kI64, {1}}));
    const bool classifies = graph_.value(target).type.dtype == DType::kI64;
    const OpId id = graph_.add_op(std::move(op), {name});
    if (classifies) graph_.add_output_of(id, name + ".hits");
    for (const ValueId output : graph_.op(id).outputs) graph_.mark_output(output);
  }

 private:
  ValueId output_of(const LossTerm& term) {
    const std::string names = fmt::format("{}", fmt::join(outputs_, ", "));
    if (term.output.empty()) {
      if (outputs_.size() == 1 && loss_.terms.size() == 1) return graph_.at(outputs_.front());
      throw ConfigError(fmt::format(
          "loss '{}' does not say which output of the model it takes; there are: {}", term.name, names));
    }
    if (std::ranges::count(outputs_, term.output) > 0) return graph_.at(term.output);
    // One that an earlier stage makes comes in.
    if (const auto id = graph_.find(term.output); id && graph_.value(*id).kind == ValueKind::kInput)
      return *id;
    const auto type = types_.find(term.output);
    if (type == types_.end() || std::ranges::count(loss_.terms, term.output, &LossTerm::target) > 0) {
      throw ConfigError(fmt::format("loss '{}': the model has no output '{}'; there are: {}", term.name,
                                    term.output, names));
    }
    return graph_.add_input(term.output, type->second);
  }

  ValueId target_of(const LossTerm& term, ValueId prediction) {
    if (const auto known = graph_.find(term.target)) {
      if (graph_.value(*known).kind == ValueKind::kInput) return *known;
      throw ConfigError(
          fmt::format("loss '{}': its target '{}' is no input of the model and nothing of the "
                      "data set",
                      term.name, term.target));
    }
    const auto given = types_.find(term.target);
    return graph_.add_input(term.target,
                            given == types_.end() ? usual_target(term, prediction) : given->second);
  }

  TensorType usual_target(const LossTerm& term, ValueId prediction) const {
    const TensorType type = batch_types(graph_).at(prediction);
    const int rank = type.shape.rank();
    const auto class_axis = kind_of(term).class_axis;
    const auto axis = class_axis == nullptr ? std::nullopt : class_axis(term, rank);
    if (!axis) return type;
    std::vector<std::int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
    if (*axis > 0 && *axis < rank) dims.erase(dims.begin() + *axis);
    return {DType::kI64, Shape(std::span<const std::int64_t>(dims))};
  }

  // With the first loss that takes them the ids travel to the stage of all.
  ValueId sample_ids() {
    if (const auto known = graph_.find(kSampleIds)) return *known;
    return graph_.add_input(kSampleIds, {DType::kI64, {kBatch}});
  }

  // An attribute is left out where it is the operator's default.
  static void set_attribute(const LossTerm& term, LossOption option, Op& op) {
    switch (option) {
      case LossOption::kIgnoreIndex:
        if (term.ignore_index) op.attributes["ignore_index"] = *term.ignore_index;
        break;
      case LossOption::kLabelSmoothing:
        if (term.label_smoothing != 0)
          op.attributes["label_smoothing"] = static_cast<float>(term.label_smoothing);
        break;
      case LossOption::kClassAxis:
        if (term.class_axis != -1) op.attributes["class_axis"] = term.class_axis;
        break;
      case LossOption::kPosWeight:
        if (term.pos_weight != std::vector<double>{1})
          op.attributes["pos_weight"] = std::vector<float>(term.pos_weight.begin(), term.pos_weight.end());
        break;
    }
  }

  Graph& graph_;  // all outlive the builder: they live in add_loss()
  const LossSettings& loss_;
  const ValueTypes& types_;
  std::vector<std::string> outputs_;  // of the model, as far as this graph makes them
};

}  // namespace

LossSettings::LossSettings(std::string name) : terms{LossTerm{.name = std::move(name)}} {}

const std::vector<LossKind>& loss_kinds() {
  using enum LossOption;
  static const std::vector<LossKind> kinds{
      {.name = "mse",
       .op_type = "MseLoss",
       .help =
           "squared error, with targets of the output's type, or class indices of an output `[n, c]`, which "
           "stand for one-hot vectors",
       .options = {},
       .has_target = true,
       .class_axis = class_axis_of_mse},
      {.name = "cross_entropy",
       .op_type = "CrossEntropyLoss",
       .help = "of softmax, with logits, and class indices of the output's shape without the classes or "
               "probabilities",
       .options = {kIgnoreIndex, kLabelSmoothing, kClassAxis},
       .has_target = true,
       .class_axis = class_axis_of_cross_entropy},
      {.name = "bce_with_logits",
       .op_type = "BceWithLogitsLoss",
       .help = "with logits and targets from 0 to 1",
       .options = {kPosWeight},
       .has_target = true,
       .class_axis = nullptr},
      {.name = "l1",
       .op_type = "L1Loss",
       .help = "absolute error, with targets of the output's type",
       .options = {},
       .has_target = true,
       .class_axis = nullptr},
      {.name = "mean",
       .op_type = "MeanLoss",
       .help = "that of an output, a loss that the model computes itself",
       .options = {},
       .has_target = false,
       .class_axis = nullptr}};
  return kinds;
}

void add_loss(Graph& graph, const LossSettings& loss, const ValueTypes& types) {
  if (loss.terms.empty()) throw ConfigError("a training needs a loss");
  LossBuilder builder(graph, loss, types);
  for (const LossTerm& term : loss.terms) builder.add(term);
  graph.types(1);
}

std::string loss_value(const LossSettings& loss, const LossTerm& term) {
  return loss.terms.size() == 1 ? kLoss : fmt::format("{}.{}.{}", kLoss, term.output, term.name);
}

std::string counted_value(const LossSettings& loss, const LossTerm& term) {
  return loss_value(loss, term) + ".counted";
}

namespace {

constexpr std::size_t kPredictionInput = 0, kTargetInput = 1, kCountedInput = 3, kHitsOutput = 1;

}  // namespace

std::vector<LossOp> losses_of(const Graph& graph) {
  const std::vector<TensorType> types = graph.types(1);
  std::vector<LossOp> losses;
  for (OpId id = 0; id < std::ssize(graph.ops()); ++id) {
    const Op& op = graph.op(id);
    if (!op_definition(op.type).is_loss) continue;
    const auto name = [&](const std::vector<ValueId>& values, std::size_t i) -> std::optional<std::string> {
      if (i >= values.size() || values[i] == kNoValue) return std::nullopt;
      return graph.value(values[i]).name;
    };
    LossOp loss{.op = id,
                .value = graph.value(op.outputs.at(0)).name,
                .target = graph.value(op.inputs.at(kTargetInput)).name,
                .weight = double{op.number("weight", 1)},
                .hits = name(op.outputs, kHitsOutput),
                .counted = name(op.inputs, kCountedInput)};
    if (loss.hits) {
      const Shape& prediction = types[op.inputs[kPredictionInput]].shape;
      loss.classes = prediction[static_cast<int>(op.integer("class_axis", -1))];
      if (op.attributes.contains("ignore_index")) loss.ignored = op.integer("ignore_index", 0);
    }
    losses.push_back(std::move(loss));
  }
  return losses;
}

std::vector<std::string> doubtful_class_axes(const Graph& graph) {
  const std::vector<TensorType> types = batch_types(graph);
  std::vector<std::string> warnings;
  for (const Op& op : graph.ops()) {
    if (op.type != "CrossEntropyLoss" || op.attributes.contains("class_axis")) continue;
    const TensorType& prediction = types[op.inputs[kPredictionInput]];
    const TensorType& target = types[op.inputs[kTargetInput]];
    std::vector<std::int64_t> dims(prediction.shape.dims().begin(), prediction.shape.dims().end());
    if (dims.size() < 3) continue;
    dims.erase(dims.begin() + 1);
    if (target != prediction && target.shape != Shape(std::span<const std::int64_t>(dims))) continue;
    warnings.push_back(fmt::format(
        "loss: the classes of {} {} are taken to lie along its last axis, but {} {} fits axis 1, too, where "
        "PyTorch has them: give \"class_axis\": 1, or {} if they are along the last",
        graph.value(op.inputs[kPredictionInput]).name, prediction.to_string(),
        graph.value(op.inputs[kTargetInput]).name, target.to_string(), prediction.shape.rank() - 1));
  }
  return warnings;
}

}  // namespace rookery
