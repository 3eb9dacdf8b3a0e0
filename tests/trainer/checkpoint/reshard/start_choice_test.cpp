#include "trainer/checkpoint/reshard/start_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/base/error.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const StartChoice kAnew;
const StartChoice kResume{.resume = true, .sync_from = std::nullopt};
StartChoice sync_from(int cluster) {
  return {.sync_from = cluster, .sync_optimizer = true};
}

template <typename Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(CheckStart, OfAnotherClusterOfThePlan) {
  TrainingSettings settings;
  const auto refused = [&](const StartChoice& choice, int cluster, int clusters) {
    return refusal([&] { check_start(choice, cluster, clusters, settings); });
  };
  EXPECT_EQ(refused(sync_from(0), 1, 2), "");
  EXPECT_EQ(refused(kResume, 1, 2), "");
  EXPECT_EQ(refused(kAnew, 0, 1), "");
  EXPECT_THAT(refused(sync_from(2), 1, 2), HasSubstr("--sync-from 2: the plan has clusters 0 to 1"));
  EXPECT_THAT(refused(sync_from(-1), 1, 2), HasSubstr("the plan has clusters 0 to 1"));
  EXPECT_THAT(refused(sync_from(1), 1, 2), HasSubstr("the cluster of this node itself"));
  EXPECT_THAT(refused(sync_from(0), 0, 1), HasSubstr("the plan has one cluster"));
  StartChoice both = sync_from(0);
  both.resume = true;
  EXPECT_THAT(refused(both, 1, 2), HasSubstr("not both"));
}

TEST(CheckStart, ClustersThatSumGradientsNeedOneOptimizersState) {
  TrainingSettings settings;
  settings.optimizer = optimizer_defaults("adam");
  StartChoice choice = sync_from(0);
  choice.sync_optimizer = false;
  const auto refused = [&] { return refusal([&] { check_start(choice, 1, 2, settings); }); };
  EXPECT_THAT(refused(), HasSubstr("give --sync-optimizer, too"));
  settings.averaging.mode = "parameters";
  EXPECT_EQ(refused(), "");
  settings.averaging.mode = "gradients";
  settings.optimizer = optimizer_defaults("sgd");
  settings.optimizer.momentum = 0;
  EXPECT_EQ(refused(), "");
}

TEST(ChoicesOfClusters, AreThoseOfAllTheirStages) {
  EXPECT_THAT(choices_of_clusters({{kResume}, {sync_from(0), sync_from(0)}, {kResume, kResume}}),
              ElementsAre(kResume, sync_from(0), kResume));
}

TEST(ChoicesOfClusters, ThatDoNotFitAreNamed) {
  const auto refused = [](const OfNodes<StartChoice>& told) {
    return refusal([&] { choices_of_clusters(told); });
  };
  EXPECT_EQ(refused({{kAnew}, {sync_from(0), kResume}}),
            "cluster 1: its stage 0 was started with --sync-from 0 --sync-optimizer, its stage 1 with "
            "--resume: start "
            "all providers of a cluster alike");
  EXPECT_EQ(refused({{kResume}, {sync_from(0)}, {sync_from(1)}}),
            "cluster 2 is to begin with the state of cluster 1, which was itself started with --sync-from 0 "
            "--sync-optimizer: name a cluster that begins with its own");
  EXPECT_EQ(refused({{sync_from(1)}, {kResume}, {kAnew}}),
            "cluster 1 was started with --resume, cluster 2 with neither --resume nor --sync-from: start "
            "both alike, "
            "or one with --sync-from the other");
  EXPECT_THAT(refused({{sync_from(0)}}), HasSubstr("itself started with"));
  EXPECT_THAT(refused({{kAnew}, {sync_from(5)}}), HasSubstr("the plan has clusters 0 to 1"));
}

TEST(StartChoice, IsToldAsJson) {
  for (const StartChoice& choice : {kAnew, kResume, sync_from(3)})
    EXPECT_EQ(nlohmann::json::parse(nlohmann::json(choice).dump()).get<StartChoice>(), choice);
}

}  // namespace
}  // namespace rookery
