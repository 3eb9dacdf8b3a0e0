// Losses are ops at the end of the last stage's graph, to PyTorch's definitions; the operators are
// described in ops/loss_ops.cpp. A model with several outputs may have several: what is trained is their
// weighted sum.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

constexpr const char* kLabels = "labels";         // the target where none is named
constexpr const char* kSampleIds = "sample_ids";  // i64[batch], travels with the targets
constexpr const char* kLoss = "loss";             // f32[], where there is one loss

// One loss. What does not belong to its kind is ignored.
struct LossTerm {
  std::string name = "mse";      // of a row of loss_kinds()
  std::string output;            // of the model; empty: its only one
  std::string target = kLabels;  // what the output is compared with; may be an input of the model
  double weight = 1;             // in the sum
  double label_smoothing = 0;    // cross_entropy: share of the target that is spread over all classes
  std::int64_t class_axis = -1;  // cross_entropy: of the output, along which the classes lie
  // bce_with_logits: the weight of targets of 1; one, or one for each of the last axis.
  std::vector<double> pos_weight{1};
  // cross_entropy: positions with this label do not count. The mean is over the counted positions of the
  // whole batch, however it is cut into micro-batches; of none it is 0.
  std::optional<std::int64_t> ignore_index;
  bool operator==(const LossTerm&) const = default;
};

struct LossSettings {
  std::vector<LossTerm> terms;  // at least one

  LossSettings() : LossSettings("mse") {}
  // A loss by its name alone. Not explicit: it reads like the name that train.json has.
  LossSettings(std::string name);                                      // NOLINT(*-explicit-*)
  LossSettings(const char* name) : LossSettings(std::string(name)) {}  // NOLINT(*-explicit-*)
  explicit LossSettings(std::vector<LossTerm> all) : terms(std::move(all)) {}
  bool operator==(const LossSettings&) const = default;
};

// The fields of LossTerm that a loss may have use of.
enum class LossOption : std::uint8_t { kIgnoreIndex, kLabelSmoothing, kClassAxis, kPosWeight };

struct LossKind {
  std::string name;
  std::string op_type;  // the operator, of ops/loss_ops.cpp
  std::string help;     // for the documentation
  std::vector<LossOption> options;
  bool has_target;
  // The axis of an output of this rank along which the classes lie when targets are class indices; nothing
  // where they usually are no class indices. None for a loss that takes no class indices.
  std::optional<std::int64_t> (*class_axis)(const LossTerm& term, int rank);
};
// All losses, a row each; the last of them, "mean", is that of an output which the model makes out of
// whatever it likes, targets included: a loss of one's own.
const std::vector<LossKind>& loss_kinds();

using ValueTypes = std::map<std::string, TensorType>;

// Appends the losses to a graph that ends a model. It gets the inputs `sample_ids`, the targets that it does
// not have, and "<loss>.counted", i64[1], for terms with an ignore_index: how many positions of the whole
// batch count. Its own outputs stay; each term adds its value, f32[], called `loss` where it is alone and
// "loss.<output>.<name>" among several, and, where targets are class indices, "<loss>.hits", i64[2]: how many
// positions the output has right, and how many count (ops/loss_ops.cpp). `types` has those of targets, as the
// data set has them, and of outputs that earlier stages make; a target that is not there has class indices
// for cross_entropy and for mse of [batch, classes], else the type of the output. ConfigError for unknown
// names, outputs that are not the model's or, among several terms, not named, and types that do not fit.
void add_loss(Graph& graph, const LossSettings& loss, const ValueTypes& types = {});

// "loss" where the term is alone, "loss.<output>.<name>" among several; and the number that goes with it.
std::string loss_value(const LossSettings& loss, const LossTerm& term);
std::string counted_value(const LossSettings& loss, const LossTerm& term);

// One of a graph's losses, as its ops say.
struct LossOp {
  OpId op = kNoOp;
  std::string value;  // its loss
  std::string target;
  double weight = 1;
  // Where targets are class indices.
  std::optional<std::string> hits;
  std::int64_t classes = 0;
  std::optional<std::int64_t> ignored;
  std::optional<std::string> counted;
};
std::vector<LossOp> losses_of(const Graph& graph);

// Warnings, for people: of each cross_entropy along the last axis, which is the default, whose target would
// fit axis 1 as well, which is PyTorch's.
std::vector<std::string> doubtful_class_axes(const Graph& graph);

}  // namespace rookery
