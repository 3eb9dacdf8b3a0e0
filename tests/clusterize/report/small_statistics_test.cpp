#include "clusterize/report/small_statistics.hpp"

#include <gmock/gmock.h>

#include <string>

#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

// Of as many clusters as there are shares.
ClusterPlan plan_of(const std::vector<std::int64_t>& shares, int micro_batches = 1) {
  ClusterPlan plan;
  plan.micro_batches = micro_batches;
  for (const std::int64_t share : shares) plan.clusters.push_back({.share = share});
  return plan;
}

// 1,078 samples train.
TrainingTask task_of(std::int64_t batch_size, const std::string& model = "cnn_net") {
  TrainingSettings settings;
  settings.model = model;
  settings.micro_batches = 1;
  settings.batch_size = batch_size;
  return cnn_task(settings);
}

TEST(SmallStatistics, AreNoneWhereEveryStepIsLarge) {
  EXPECT_FALSE(small_statistics(task_of(64), plan_of({64})));     // 54 are left
  EXPECT_FALSE(small_statistics(task_of(64), plan_of({64}, 4)));  // 16, 16, 16 and 6
  EXPECT_FALSE(small_statistics(task_of(2000), plan_of({2000})));
  EXPECT_FALSE(small_statistics(task_of(77), plan_of({77, 77})));  // nothing is left
}

TEST(SmallStatistics, OfALastStepThatManyClustersShare) {
  const auto warning = small_statistics(task_of(32), plan_of(std::vector<std::int64_t>(8, 32)));
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning,
              HasSubstr("over 6 samples on cluster 6 in the last step of an epoch, which has 54 samples"));
  EXPECT_THAT(*warning, HasSubstr("\"batch_size\": 34 has no such step"));
}

TEST(SmallStatistics, OfClustersThatHaveNoSamplesAreNot) {
  const auto warning = small_statistics(task_of(35), plan_of({35, 35, 5}));  // 28 are left
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, HasSubstr("over 5 samples on cluster 2 in a step"));
  const auto of_two = small_statistics(task_of(154), plan_of({154, 154, 49}));  // 7 are left
  ASSERT_TRUE(of_two);
  EXPECT_THAT(*of_two, HasSubstr("over 1 sample on cluster 2"));
  const auto of_one =
      small_statistics(task_of(100), plan_of({1, 1076}));  // the second takes the one that is left
  ASSERT_TRUE(of_one);
  EXPECT_THAT(*of_one, HasSubstr("over 1 sample on cluster"));
}

TEST(SmallStatistics, OfASampleThatIsLeft) {
  TrainingTask task = task_of(64);
  task.data.train_samples = 97;
  const auto warning = small_statistics(task, plan_of({64}, 4));  // 16, 16 and 1
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning,
              HasSubstr("over 1 sample on cluster 0 in the last step of an epoch, which has 33 samples"));
  task.data.train_samples = 98;
  EXPECT_FALSE(small_statistics(task, plan_of({64}, 4)));
}

TEST(SmallStatistics, OfSmallMicroBatches) {
  const auto warning = small_statistics(task_of(64), plan_of({64}, 16));
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, HasSubstr("over 4 samples on cluster 0 in a step, which has 64 samples"));
  EXPECT_THAT(*warning, HasSubstr("fewer micro_batches"));
}

TEST(SmallStatistics, DoNotMatterToAModelWithoutThem) {
  EXPECT_FALSE(small_statistics(task_of(8, "mnist_mlp"), plan_of({8})));
}

TEST(SmallStatistics, AdviceLeavesNone) {
  int advised = 0;
  for (std::int64_t batch_size = 16; batch_size < 400; batch_size += 7) {
    for (std::size_t clusters = 1; clusters <= 8; ++clusters) {
      const auto warning =
          small_statistics(task_of(batch_size), plan_of(std::vector<std::int64_t>(clusters, batch_size)));
      const std::string before = "\"batch_size\": ";
      if (!warning || warning->find(before) == std::string::npos) continue;
      const std::int64_t better = std::stoll(warning->substr(warning->find(before) + before.size()));
      const auto then =
          small_statistics(task_of(better), plan_of(std::vector<std::int64_t>(clusters, better)));
      EXPECT_FALSE(then) << batch_size << " on " << clusters << " clusters: " << *warning << "; " << *then;
      ++advised;
    }
  }
  EXPECT_GT(advised, 50);
}

}  // namespace
}  // namespace rookery
