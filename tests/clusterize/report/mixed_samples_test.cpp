#include "clusterize/report/mixed_samples.hpp"

#include <gmock/gmock.h>

#include <string>

#include "clusterize/planner/choices/choose_schedule.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/passes/mixed_samples.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

// Of a model that takes the mean over its batch.
TrainingTask centring_task() {
  GraphBuilder build;
  const ValueId x = build.input("x", {4});
  const std::vector<std::int64_t> batch{0};
  const ValueId mean = build.apply("mean", "ReduceMean", {x}, {{"axes", batch}});
  TrainingTask task{.graph = build.finish(build.linear("last", build.sub("centred", x, mean), 3)),
                    .settings = {.batch_size = 64}};
  add_loss(task.graph, "mse");
  return task;
}

ClusterPlan plan_of_shares(std::initializer_list<std::int64_t> shares, int micro_batches) {
  ClusterPlan plan;
  plan.micro_batches = micro_batches;
  for (const std::int64_t share : shares) plan.clusters.push_back({.share = share});
  return plan;
}

TEST(MixedSamples, AreFineInWholeBatches) {
  EXPECT_FALSE(mixed_samples(centring_task(), plan_of_shares({64}, 1)));
}

TEST(MixedSamples, OfMicroBatches) {
  const auto warning = mixed_samples(centring_task(), plan_of_shares({64}, 4));
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, HasSubstr("in mean (ReduceMean), which see at most 16 of the 64 samples of a step"));
  EXPECT_THAT(*warning, HasSubstr("; \"micro_batches\": 1 avoids that"));
}

TEST(MixedSamples, OfClusters) {
  const auto warning = mixed_samples(centring_task(), plan_of_shares({64, 32}, 2));
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, HasSubstr("at most 32 of the 96 samples"));
  EXPECT_THAT(*warning, HasSubstr("; \"micro_batches\": 1 on one cluster avoids that"));
  EXPECT_THAT(*mixed_samples(centring_task(), plan_of_shares({64, 32}, 1)),
              HasSubstr("; one cluster avoids that"));
}

TEST(MixedSamples, AreNotInTheZoo) {
  for (const ZooModel& model : zoo()) EXPECT_TRUE(mixing_ops(zoo_model(model.name)).empty()) << model.name;
}

TEST(PossibleMicroBatches, AreOneWhereSamplesAreMixed) {
  EXPECT_EQ(possible_micro_batches(centring_task().settings, centring_task().graph), std::vector<int>{1});
}

}  // namespace
}  // namespace rookery
