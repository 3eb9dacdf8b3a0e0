// Where nobody wants a step's gradients, parameters change in backward: the same run, bit by bit, as where
// all wait for a norm that clips nothing.
#include <gtest/gtest.h>

#include <vector>

#include "models/base/named_rows.hpp"
#include "models/graph/ops/builder.hpp"
#include "tests/support/digits.hpp"
#include "tests/support/equal_states.hpp"
#include "tests/support/pipeline.hpp"
#include "trainer/trainer.hpp"

namespace rookery {
namespace {

Graph wide_model() {
  GraphBuilder b;
  ValueId x = b.flatten("flat", b.input("input", {1, 8, 8}));
  for (int i = 0; i < 4; ++i) {
    x = b.relu("relu_" + std::to_string(i), b.linear("dense_" + std::to_string(i), x, 96));
    x = b.batch_norm("norm_" + std::to_string(i), b.dropout("drop_" + std::to_string(i), x, 0.1F));
  }
  return b.finish(b.linear("last", x, 10));
}

PipelineResult run(TrainingSettings settings, std::size_t stages, bool in_backward) {
  if (!in_backward) settings.clip_gradient_norm = 1e30;
  const Graph model = wide_model();
  const std::vector<OpId> all{0, 3, 9, 14};
  return run_pipeline(model, std::span(all).first(stages), settings, digits());
}

TEST(UpdatesInBackward, ChangeNoBitOfARun) {
  for (const std::string name : {"1f1b", "zb"}) {
    for (const std::string recompute : {"none", "full"}) {
      TrainingSettings settings{.epochs = 2};
      settings.schedule.name = name;
      settings.recompute = recompute;
      const PipelineResult expected = run(settings, 1, false);
      for (const std::size_t stages : {1, 2, 4}) {
        SCOPED_TRACE(testing::Message()
                     << name << ", recompute " << recompute << ", " << stages << " stages");
        const PipelineResult found = run(settings, stages, true);
        EXPECT_EQ(found.losses, expected.losses);
        expect_equal(found.state, expected.state);
      }
    }
  }
}

TEST(UpdatesInBackward, ChangeNoBitOfVersionsOfWeights) {
  for (const std::string& optimizer : names_of(optimizer_kinds())) {
    TrainingSettings settings{.epochs = 2};
    settings.optimizer = optimizer_defaults(optimizer);
    settings.optimizer.learning_rate = 1e-3;
    settings.schedule.name = "async";
    for (const std::size_t stages : {2, 4}) {
      SCOPED_TRACE(testing::Message() << optimizer << ", " << stages << " stages");
      const PipelineResult expected = run(settings, stages, false);
      const PipelineResult found = run(settings, stages, true);
      EXPECT_EQ(found.losses, expected.losses);
      expect_equal(found.state, expected.state);
    }
  }
}

TEST(UpdatesInBackward, AreMadeWhereNobodyWantsTheGradientsFirst) {
  const TrainingSettings settings;
  EXPECT_TRUE(may_update_in_backward(settings, 1, 1));
  EXPECT_FALSE(may_update_in_backward(settings, 2, 1));
  EXPECT_FALSE(may_update_in_backward(settings, 1, 2)) << "which average gradients";
  for (const std::string mode : {"parameters", "diloco"})
    EXPECT_TRUE(may_update_in_backward({.averaging = {.mode = mode}}, 1, 2)) << mode;
  EXPECT_FALSE(may_update_in_backward({.averaging = {.mode = "auto"}}, 1, 2));
  EXPECT_FALSE(may_update_in_backward({.clip_gradient_norm = 1}, 1, 1));
  EXPECT_TRUE(may_update_in_backward({.schedule = {.name = "async"}}, 1, 1));
  const DataSizes data{.train_samples = 640, .validation_samples = 64};
  const auto made = [&](const TrainingSettings& of,
                        const std::optional<ClusterShares>& shares = std::nullopt) {
    return compile_options(of, data, 0, 2, {}, shares).updates_in_backward;
  };
  EXPECT_TRUE(made(settings));
  EXPECT_FALSE(made({.micro_batches = 2}));
  EXPECT_TRUE(made(settings, one_cluster(64)));
  EXPECT_FALSE(made(settings, ClusterShares{.cluster = 0, .samples = {64, 64}}));
}

}  // namespace
}  // namespace rookery
