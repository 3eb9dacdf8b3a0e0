// The keys of `averaging`.
#include "trainer/settings/compression.hpp"
#include "trainer/settings/keys/key_builders.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kMostUpdates = 1'000'000'000;

SettingsKey every_key() {
  return with_example(
      integer_key(
          "every", 1, kMostUpdates,
          [](TrainingSettings& s) -> std::optional<std::int64_t>& { return s.averaging.every; },
          "updates from one round to the next; null: those of an epoch"),
      16);
}

SettingsKey overlap_key() {
  return with_example(
      integer_key(
          "overlap", 0, kMostUpdates,
          [](TrainingSettings& s) -> std::optional<std::int64_t>& { return s.averaging.overlap; },
          "updates that are made while a round is under way: what it has changed is added after so many; "
          "rounds "
          "before validations are waited for. null: 0, with several fragments 1"),
      8);
}

SettingsKey compression_key() {
  const auto field = [](TrainingSettings& s) -> std::string& { return s.averaging.compression; };
  return {.name = "compression",
          .values = "\"none\", \"fp16\", \"bf16\", \"int8\", \"int4\" or \"topk:SHARE\"",
          .example = "int8",
          .schema = {{"type", "string"}, {"pattern", kCompressionPattern}},
          .read = reader(field),
          .write = writer(field),
          .help =
              "how what belongs to parameters travels between clusters, with what rounding lost added to the "
              "next round; `topk:0.01`: only the largest hundredth, `topk:0.01:8` and `topk:0.01:2` with 8 "
              "or 2 bits for each"};
}

SettingsObject make_averaging_object() {
  const NumberRange rate{0, Bound::kExcluded, 1000, Bound::kIncluded};
  const NumberRange share{0, Bound::kIncluded, 1, Bound::kExcluded};
  return {
      .name = "averaging",
      .discriminator = "mode",
      .help =
          "how several clusters stay one model; there is a round before each validation and at the end, too",
      .chosen = [](const TrainingSettings& s) { return s.averaging.mode; },
      .choose = [](const std::string& mode, TrainingSettings& s) { s.averaging = {.mode = mode}; },
      .variants =
          {{"gradients",
            "of every step are summed, as if one node trained on the samples of all clusters",
            {compression_key()}},
           {"parameters",
            "and statistics of normalisations are averaged after every so many updates (arXiv 2401.01728)",
            {every_key(),
             bool_key(
                 "optimizer", [](TrainingSettings& s) -> bool& { return s.averaging.optimizer; },
                 "the optimizer's state is averaged, too"),
             overlap_key(), compression_key()}},
           {"diloco",
            "the mean of what so many updates have changed is the gradient of an outer SGD with Nesterov's "
            "momentum (arXiv 2311.08105)",
            {every_key(),
             number_key(
                 "outer_learning_rate", rate,
                 [](TrainingSettings& s) -> double& { return s.averaging.outer_learning_rate; },
                 "rate of the outer SGD"),
             number_key(
                 "outer_momentum", share,
                 [](TrainingSettings& s) -> double& { return s.averaging.outer_momentum; },
                 "share of the outer SGD's last step that is kept"),
             integer_key(
                 "fragments", 1, 1000, [](TrainingSettings& s) -> int& { return s.averaging.fragments; },
                 "parts of the model whose rounds are spread evenly over `every` updates "
                 "(arXiv 2501.18512)"),
             overlap_key(), compression_key()}},
           {"auto",
            "clusterize chooses gradients, or where averaging those would take as long as training, "
            "parameters "
            "as often as can be in a tenth of the time, and says why",
            {compression_key()}}}};
}

}  // namespace

const SettingsObject& averaging_object() {
  static const SettingsObject object = make_averaging_object();
  return object;
}

}  // namespace rookery
