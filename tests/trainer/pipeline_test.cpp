// The promise that the cut does not change the training, on whole runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/digits.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/repository.hpp"

namespace rookery {
namespace {

TrainingSettings two_epochs(int micro_batches) {
  TrainingSettings settings;
  settings.epochs = 2;
  settings.micro_batches = micro_batches;
  return settings;
}

// Cuts of cnn_net by the names of the ops that begin a stage.
std::vector<OpId> cut_before(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<OpId> begins{0};
  for (std::size_t i = 0; i < graph.ops().size(); ++i) {
    if (std::ranges::count(names, graph.ops()[i].name) > 0) begins.push_back(static_cast<OpId>(i));
  }
  EXPECT_EQ(begins.size(), names.size() + 1);
  return begins;
}

PipelineResult run(const std::vector<std::string>& cuts, const TrainingSettings& settings) {
  const Graph graph = cnn_net();
  return run_pipeline(graph, cut_before(graph, cuts), settings, digits());
}

class CutsOfCnnNet : public testing::TestWithParam<std::vector<std::string>> {
 protected:
  // One node's run, the standard.
  static const PipelineResult& whole(int micro_batches) {
    static std::map<int, PipelineResult> results;
    const auto found = results.find(micro_batches);
    if (found != results.end()) return found->second;
    return results.emplace(micro_batches, run({}, two_epochs(micro_batches))).first->second;
  }

  static void expect_same(int micro_batches) {
    const PipelineResult& expected = whole(micro_batches);
    const PipelineResult cut = run(GetParam(), two_epochs(micro_batches));
    EXPECT_EQ(expected.losses.size(), 34U);
    EXPECT_EQ(cut.losses, expected.losses);
    EXPECT_EQ(cut.accuracies, expected.accuracies);
    EXPECT_TRUE(same_state(cut.state, expected.state));
    EXPECT_EQ(cut.sample_digests.front(), expected.sample_digests.front());
    EXPECT_EQ(cut.sample_digests.back(), expected.sample_digests.front());
  }
};

TEST_P(CutsOfCnnNet, WithOneMicroBatch) {
  expect_same(1);
}

TEST_P(CutsOfCnnNet, WithThreeMicroBatchesOfUnequalSize) {
  expect_same(3);
}

TEST_P(CutsOfCnnNet, WithFourMicroBatches) {
  expect_same(4);
}

TEST_P(CutsOfCnnNet, WithMoreOrFewerInFlightThanUsual) {
  const PipelineResult& expected = whole(4);
  for (const int in_flight : {2, 4}) {
    TrainingSettings settings = two_epochs(4);
    settings.schedule.in_flight = in_flight;
    const PipelineResult cut = run(GetParam(), settings);
    EXPECT_EQ(cut.losses, expected.losses);
    EXPECT_TRUE(same_state(cut.state, expected.state));
  }
}

TEST_P(CutsOfCnnNet, WithGradientsOfWeightsInTheBubbles) {
  const PipelineResult& expected = whole(4);
  TrainingSettings settings = two_epochs(4);
  settings.schedule.name = "zb";
  const PipelineResult cut = run(GetParam(), settings);
  EXPECT_EQ(cut.losses, expected.losses);
  EXPECT_TRUE(same_state(cut.state, expected.state));
}

INSTANTIATE_TEST_SUITE_P(
    Pipeline, CutsOfCnnNet,
    testing::Values(std::vector<std::string>{}, std::vector<std::string>{"bn_1"},
                    std::vector<std::string>{"dense_2"}, std::vector<std::string>{"relu_1"},
                    std::vector<std::string>{"conv2d_2", "dense_1"},
                    std::vector<std::string>{"dropout_1", "bn_3"},
                    std::vector<std::string>{"max_pool_2", "dropout_2", "relu_3"},
                    std::vector<std::string>{"max_pool_1", "bn_1", "conv2d_2", "flatten"},
                    std::vector<std::string>{"bn_1", "bn_2", "dense_1", "dense_2"}),
    [](const auto& instance) {
      std::string name = "Stages" + std::to_string(instance.param.size() + 1);
      for (const std::string& cut : instance.param) name += "_" + cut;
      return name;
    });

TEST(Pipeline, LearnsTheDigits) {
  TrainingSettings settings;
  settings.epochs = 12;
  const PipelineResult result = run({"bn_1", "dense_1"}, settings);
  ASSERT_EQ(result.accuracies.size(), 12U);
  EXPECT_GT(result.accuracies.back(), 90);
  EXPECT_LT(result.losses.back(), result.losses.front() / 3);
}

TEST(Pipeline, SeedDecidesTheRun) {
  TrainingSettings settings = two_epochs(1);
  settings.epochs = 1;
  const PipelineResult one = run({"dense_1"}, settings);
  EXPECT_EQ(one.losses, run({"dense_1"}, settings).losses);
  settings.seed = 43;
  EXPECT_NE(one.losses, run({"dense_1"}, settings).losses);
}

// The samples that the last batch would leave out decide the weights, too.
TEST(Pipeline, TheLastSmallerBatchIsTrained) {
  TrainingSettings settings = two_epochs(1);
  settings.epochs = 1;
  settings.batch_size = 500;
  const PipelineResult result = run({"dense_1"}, settings);
  EXPECT_EQ(result.losses.size(), 3U);  // 500, 500, 78
  EXPECT_EQ(result.state.at("bn_1.num_batches_tracked").as<std::int64_t>().front(), 3);
}

TEST(Pipeline, OtherSettingsKeepTheirPromiseToo) {
  TrainingSettings settings = two_epochs(2);
  settings.epochs = 1;
  settings.optimizer.name = "sgd";
  settings.optimizer.momentum = 0.9;
  settings.optimizer.learning_rate = 0.1;
  settings.optimizer.weight_decay = 1e-4;
  settings.validate_every = 0;
  const PipelineResult whole = run({}, settings);
  const PipelineResult cut = run({"conv2d_2", "dense_1"}, settings);
  EXPECT_TRUE(whole.accuracies.empty());
  EXPECT_EQ(cut.losses, whole.losses);
  EXPECT_TRUE(same_state(cut.state, whole.state));
}

TEST(Pipeline, EveryStageFollowsTheSchedule) {
  TrainingSettings settings = two_epochs(1);
  settings.epochs = 2;
  settings.optimizer = optimizer_defaults("lamb");
  const PipelineResult constant = run({"conv2d_2", "dense_1"}, settings);
  settings.learning_rate_schedule = {.name = "step", .per = "epoch", .step_size = 1};
  const PipelineResult whole = run({}, settings);
  const PipelineResult cut = run({"conv2d_2", "dense_1"}, settings);
  EXPECT_EQ(cut.losses, whole.losses);
  EXPECT_TRUE(same_state(cut.state, whole.state));
  // The rate falls with the 18th update, which the 19th loss is the first to show.
  EXPECT_TRUE(std::equal(cut.losses.begin(), cut.losses.begin() + 18, constant.losses.begin()));
  EXPECT_NE(cut.losses[18], constant.losses[18]);
}

TEST(Pipeline, MnistMlpLearnsFromIdxFiles) {
  const auto mnist = open_dataset("idx:datasets/mnist", kNodeData);
  TrainingSettings settings;
  settings.model = "mnist_mlp";
  settings.train_fraction = 0.8;
  settings.split = "in_order";
  settings.loss = "cross_entropy";
  settings.batch_size = 100;
  settings.epochs = 1;
  const Graph graph = mnist_mlp();
  const PipelineResult whole = run_pipeline(graph, cut_before(graph, {}), settings, *mnist);
  const PipelineResult cut = run_pipeline(graph, cut_before(graph, {"dense_2", "relu_2"}), settings, *mnist);
  ASSERT_EQ(whole.losses.size(), 80U);
  EXPECT_GT(whole.accuracies.back(), 85);
  EXPECT_EQ(cut.losses, whole.losses);
  EXPECT_TRUE(same_state(cut.state, whole.state));
}

}  // namespace
}  // namespace rookery
