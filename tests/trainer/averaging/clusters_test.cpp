// Clusters that train side by side are one model: against one node, against each other, whatever their cuts.
#include "tests/support/clusters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "models/base/libraries/format.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/repository.hpp"
#include "trainer/data/readers.hpp"

namespace rookery {
namespace {

// Without batch statistics and dropout, which of several clusters are others than of one.
Graph five_layers() {
  GraphBuilder net;
  ValueId x = net.flatten("flatten", net.input("input", {1, 8, 8}));
  for (const int layer : {1, 2, 3, 4}) {
    x = net.linear(fmt::format("linear_{}", layer), x, 40);
    x = net.relu(fmt::format("relu_{}", layer), x);
  }
  return net.finish(net.linear("linear_5", x, 10));
}

using Cuts = std::vector<std::vector<OpId>>;

class Clusters : public testing::Test {
 protected:
  Clusters() {
    settings_.loss = LossSettings("cross_entropy");
    settings_.optimizer = {.name = "sgd", .learning_rate = 0.05};
    settings_.batch_size = 32;
    settings_.epochs = 2;
  }

  // Clusters of as many stages, cut evenly.
  Cuts cut_into(const std::vector<std::size_t>& stages) const {
    Cuts cuts;
    for (const std::size_t count : stages) cuts.push_back(even_cuts(model_, settings_.loss, *digits_, count));
    return cuts;
  }
  ClustersResult run(const std::vector<std::size_t>& stages, const std::vector<std::int64_t>& shares,
                     bool keeps_united = false) const {
    return run_clusters(model_, cut_into(stages), shares, settings_, *digits_, keeps_united);
  }
  // One node, on batches of so many samples.
  PipelineResult joined(std::int64_t batch) const {
    TrainingSettings settings = settings_;
    settings.batch_size = batch;
    return run_pipeline(model_, std::vector<OpId>{0}, settings, *digits_);
  }

  static double largest_difference(const StateDict& a, const StateDict& b) {
    double largest = 0;
    for (const auto& [name, tensor] : a) {
      if (tensor.type().dtype != DType::kF32) continue;
      const auto x = tensor.as<float>();
      const auto y = b.at(name).as<float>();
      for (std::size_t i = 0; i < x.size(); ++i)
        largest = std::max(largest, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
    }
    return largest;
  }
  static void expect_one_model(const ClustersResult& result) {
    for (const PipelineResult& cluster : result.clusters)
      EXPECT_TRUE(same_state(cluster.state, result.clusters.front().state));
  }
  static void expect_same_bits(const ClustersResult& a, const ClustersResult& b) {
    ASSERT_EQ(a.clusters.size(), b.clusters.size());
    for (std::size_t i = 0; i < a.clusters.size(); ++i) {
      EXPECT_TRUE(same_state(a.clusters[i].state, b.clusters[i].state)) << "cluster " << i;
      EXPECT_EQ(a.clusters[i].losses, b.clusters[i].losses) << "cluster " << i;
      EXPECT_EQ(a.clusters[i].accuracies, b.clusters[i].accuracies) << "cluster " << i;
    }
  }

  Graph model_ = five_layers();
  const std::unique_ptr<Dataset> digits_ = open_dataset("digits", kNodeData);
  TrainingSettings settings_;
};

TEST_F(Clusters, OfSummedGradientsTrainAsOneNodeOnTheJoinedBatch) {
  settings_.epochs = 3;
  const PipelineResult of_two = joined(64);
  const ClustersResult two = run({3, 2}, {32, 32});
  EXPECT_GE(of_two.losses.size(), 50U);
  EXPECT_LT(largest_difference(two.clusters[0].state, of_two.state), 1e-5);
  expect_one_model(two);

  const PipelineResult of_four = joined(60);
  const ClustersResult four = run({1, 2, 3, 4}, {16, 24, 8, 12});
  EXPECT_LT(largest_difference(four.clusters[0].state, of_four.state), 1e-5);
  expect_one_model(four);
  ASSERT_EQ(four.clusters[0].accuracies.size(), of_four.accuracies.size());
  for (std::size_t i = 0; i < of_four.accuracies.size(); ++i)
    EXPECT_NEAR(four.clusters[0].accuracies[i], of_four.accuracies[i], 0.3);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_TRUE(four.clusters[i].accuracies.empty());
}

TEST_F(Clusters, ClipTheNormOfTheJoinedGradient) {
  settings_.clip_gradient_norm = 0.5;
  const ClustersResult two = run({2, 1}, {32, 32});
  EXPECT_LT(largest_difference(two.clusters[0].state, joined(64).state), 1e-5);
  expect_one_model(two);
}

TEST_F(Clusters, HoldTheSameBitsAfterEveryRoundWhateverTheirCuts) {
  model_ = cnn_net();  // with batch statistics, and dropout
  settings_.optimizer = {.name = "adam"};
  settings_.batch_size = 40;
  struct Way {
    AveragingSettings averaging;
    std::size_t rounds;  // in 30 steps, after 15 of which comes a validation
  };
  const std::vector<Way> ways{
      {{.mode = "gradients"}, 30},
      {{.mode = "gradients", .compression = "int8"}, 30},
      {{.mode = "parameters", .every = 3}, 10},
      {{.mode = "parameters", .every = 3, .optimizer = true}, 10},
      {{.mode = "parameters", .every = 3, .optimizer = true, .compression = "bf16"}, 10},
      {{.mode = "parameters", .every = 4, .optimizer = true, .overlap = 2}, 2},
      {{.mode = "diloco", .every = 4}, 9},
      {{.mode = "diloco", .every = 4, .fragments = 3, .overlap = 0}, 2},
      {{.mode = "diloco", .every = 4, .fragments = 3, .compression = "topk:0.1:8"}, 2}};
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const Way& way = ways[i];
    SCOPED_TRACE(fmt::format("way {}: {}", i, way.averaging.mode));
    settings_.averaging = way.averaging;
    const ClustersResult some = run({3, 2, 1}, {40, 25, 10}, true);
    const ClustersResult others = run({1, 3, 2}, {40, 25, 10});
    expect_same_bits(some, others);
    expect_one_model(some);
    EXPECT_EQ(some.clusters[0].losses.size(), 30U);
    EXPECT_EQ(some.united.size(), way.rounds);
    for (const auto& [step, states] : some.united) {
      for (const StateDict& state : states)
        EXPECT_TRUE(same_state(state, states.front())) << "after step " << step;
    }
  }
}

TEST_F(Clusters, OfAveragedParametersAfterEachPlainStepTrainAsOfSummedGradients) {
  const ClustersResult summed = run({2, 1}, {32, 20});
  settings_.averaging = {.mode = "parameters", .every = 1};
  const ClustersResult averaged = run({1, 2}, {32, 20});
  EXPECT_LT(largest_difference(summed.clusters[0].state, averaged.clusters[0].state), 1e-5);
  settings_.averaging = {.mode = "diloco", .every = 1, .outer_learning_rate = 1, .outer_momentum = 0};
  const ClustersResult outer = run({1, 1}, {32, 20});
  EXPECT_LT(largest_difference(outer.clusters[0].state, averaged.clusters[0].state), 1e-5);
}

TEST_F(Clusters, OverlapChangesNothingButWhenARoundIsApplied) {
  settings_.averaging = {.mode = "parameters", .every = 45};
  settings_.validate_every = 0;
  const ClustersResult apart = run({2, 1}, {32, 20});
  settings_.validate_every = 1;  // before which every round is waited for
  settings_.averaging = {.mode = "parameters"};
  const ClustersResult waited = run({2, 1}, {32, 20});
  settings_.averaging = {.mode = "parameters", .overlap = 5};
  expect_same_bits(run({1, 2}, {32, 20}), waited);
  settings_.averaging = {.mode = "parameters", .every = 8, .overlap = 3};
  const ClustersResult overlapped = run({1, 2}, {32, 20});
  EXPECT_GT(largest_difference(overlapped.clusters[0].state, waited.clusters[0].state), 0);
  expect_one_model(overlapped);
  const std::vector<double>& losses = overlapped.clusters[0].losses;
  // Until the round is applied each cluster trains alone.
  for (std::size_t step = 0; step < 11; ++step)
    EXPECT_EQ(losses[step], apart.clusters[0].losses[step]) << step;
  EXPECT_NE(losses[11], apart.clusters[0].losses[11]);
}

// One way in which a model may become too coarse: the joined run is no longer near.
TEST_F(Clusters, CompressedTrainNearlyAsUncompressed) {
  settings_.epochs = 6;
  const double whole = run({1, 1}, {32, 32}).clusters[0].accuracies.back();
  for (const char* mode : {"gradients", "parameters", "diloco"}) {
    for (const char* compression :
         {"fp16", "bf16", "int8", "int4", "topk:0.05", "topk:0.05:8", "topk:0.05:2"}) {
      SCOPED_TRACE(fmt::format("{} {}", mode, compression));
      settings_.averaging = {.mode = mode, .every = 4, .compression = compression};
      const ClustersResult result = run({1, 2}, {32, 32});
      expect_one_model(result);
      EXPECT_GT(result.clusters[0].accuracies.back(), whole - 8);
    }
  }
}

// 1078 samples: the last of each epoch is all that its last step has.
TEST_F(Clusters, TrainOnEverySampleOnceThoughALastBatchIsTooSmallForAll) {
  settings_.batch_size = 359;
  const PipelineResult whole = joined(1077);
  for (const char* mode : {"gradients", "parameters", "diloco"}) {
    SCOPED_TRACE(mode);
    settings_.averaging = {.mode = mode, .every = 1};
    const ClustersResult result = run({1, 2, 2}, {359, 359, 359});
    ASSERT_EQ(result.clusters[1].losses.size(), 4U);
    EXPECT_TRUE(std::isnan(result.clusters[1].losses[1]));
    EXPECT_FALSE(std::isnan(result.clusters[0].losses[1]));
    expect_one_model(result);
    if (std::string(mode) == "gradients") {
      EXPECT_LT(largest_difference(result.clusters[0].state, whole.state), 1e-5);
    }
  }
}

TEST_F(Clusters, FollowOnePlateau) {
  settings_.epochs = 5;
  settings_.learning_rate_schedule = {
      .name = "plateau", .metric = "training_loss", .factor = 0.5, .patience = 0, .threshold = 0.9};
  const ClustersResult two = run({2, 1}, {32, 32});
  expect_one_model(two);
  EXPECT_LT(largest_difference(two.clusters[0].state, joined(64).state), 1e-5);
}

// What a plateau has as its best after an epoch is the epoch's loss, of all samples of all clusters.
TEST_F(Clusters, GoOnWithinAnEpochWithTheLossesOfItsSamplesOnce) {
  constexpr std::int64_t kWithin = 10;
  settings_.learning_rate_schedule = {.name = "plateau", .metric = "training_loss"};
  using Snapshots = std::map<std::int64_t, Snapshot>;
  const auto best = [](const Snapshots& of) {
    static constexpr std::int64_t kSteps = 17;  // an epoch
    return of.at(kSteps).state.plateau.best.value_or(0);
  };
  const auto run_one = [&](const Snapshot* from) {
    settings_.batch_size = 64;
    Snapshots snapshots;
    run_pipeline(model_, cut_into({2}).front(), settings_, *digits_, {.from = from, .snapshots = &snapshots});
    return snapshots;
  };
  const auto run_several = [&](const std::vector<std::size_t>& stages,
                               const std::vector<std::int64_t>& shares, const Snapshot* from) {
    settings_.batch_size = std::ranges::max(shares);
    std::vector<Snapshots> snapshots;
    run_clusters(model_, cut_into(stages), shares, settings_, *digits_, false, from, &snapshots);
    return snapshots;
  };
  const Snapshots one = run_one(nullptr);
  const double expected = best(one);
  EXPECT_GT(expected, 0.5);
  const std::vector<Snapshots> two = run_several({2, 1}, {40, 24}, nullptr);
  EXPECT_NEAR(best(two[0]), expected, 1e-5);
  for (const Snapshots& of_one : two) {
    const Snapshot* from = &of_one.at(kWithin);
    EXPECT_EQ(best(run_several({1, 2}, {40, 24}, from)[1]), best(two[1])) << "from the parts of one of them";
    EXPECT_NEAR(best(run_several({1, 1}, {24, 40}, from)[0]), expected, 1e-5) << "with other shares";
    EXPECT_NEAR(best(run_several({1, 1, 1}, {20, 20, 24}, from)[2]), expected, 1e-5) << "as three";
    EXPECT_NEAR(best(run_one(from)), expected, 1e-5) << "as one";
  }
  EXPECT_NEAR(best(run_several({1, 2}, {24, 40}, &one.at(kWithin))[1]), expected, 1e-5) << "one as two";
}

TEST_F(Clusters, WithAnAsynchronousScheduleAverageEachStageAtItsOwnUpdate) {
  settings_.schedule.name = "async";
  for (const char* mode : {"gradients", "parameters", "diloco"}) {
    SCOPED_TRACE(mode);
    settings_.averaging = {.mode = mode, .every = 4};
    expect_one_model(run({3, 3}, {32, 24}));
  }
}

}  // namespace
}  // namespace rookery
