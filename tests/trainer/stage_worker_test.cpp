#include "trainer/stage_worker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/initialize.hpp"
#include "tests/support/done_transfer.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two dense layers on three values, softmax over two classes, mean squared error.
Graph small_model() {
  GraphBuilder net;
  const ValueId x = net.input("input", {3});
  const ValueId hidden = net.relu("relu", net.linear("first", x, 4));
  Graph graph = net.finish(net.softmax("softmax", net.linear("second", hidden, 2)));
  add_loss(graph, "mse");
  return graph;
}

// Writes down what passes; hands out zeros, or what was put ready for an edge.
class RecordingLink : public Link {
 public:
  std::unique_ptr<PendingTransfer> begin_send(int to_rank, const MessageKey& key, ConstTensorView) override {
    log.push_back("to " + std::to_string(to_rank) + ": " + to_string(key));
    return std::make_unique<DoneTransfer>();
  }
  std::unique_ptr<PendingTransfer> begin_receive(int from_rank, const MessageKey& key,
                                                 TensorView into) override {
    log.push_back("from " + std::to_string(from_rank) + ": " + to_string(key));
    std::ranges::fill(into.bytes(), std::byte{0});
    const auto found = integers.find(key.edge);
    if (found != integers.end()) std::ranges::fill(into.as<std::int64_t>(), found->second);
    return std::make_unique<DoneTransfer>();
  }
  void flush() override { log.emplace_back("flush"); }

  std::vector<std::string> log;
  std::map<std::string, std::int64_t> integers;
};

class StageWorkerTest : public testing::Test {
 protected:
  Executable compile(const Stage& stage, const std::vector<std::int64_t>& sizes, int slots = 1) const {
    const StateDict all = initial_state(graph_, 1);
    StateDict state;
    for (const ValueId id : stage.graph.parameters()) {
      const std::string& name = stage.graph.value(id).name;
      state.emplace(name, all.at(name).clone());
    }
    CompileOptions options{.training_sizes = sizes, .inference_sizes = sizes, .slots = slots};
    options.micro_batches = 2;
    options.kernels = choose_kernels(graph_, 4);
    return {stage, options, state};
  }

  std::vector<Stage> cut_at(const std::string& op) const {
    std::vector<OpId> begins{0};
    for (std::size_t i = 0; i < graph_.ops().size(); ++i) {
      if (graph_.ops()[i].name == op) begins.push_back(static_cast<OpId>(i));
    }
    return cut(graph_, begins);
  }
  Stage whole() const { return std::move(cut(graph_, std::vector<OpId>{0}).front()); }

  // Sample s is (s, s, s); its label is s % 2.
  static void fill(const MicroBatch& micro_batch, const std::string& value, TensorView into) {
    for (std::int64_t i = 0; i < micro_batch.size; ++i) {
      const std::int64_t sample = micro_batch.index * 4 + i;
      const auto at = static_cast<std::size_t>(i);
      if (value == kSampleIds) {
        into.as<std::int64_t>()[at] = sample;
      } else if (value == kLabels) {
        into.as<std::int64_t>()[at] = sample % 2;
      } else {
        std::ranges::fill(into.as<float>().subspan(at * 3, 3), static_cast<float>(sample));
      }
    }
  }

  const Graph graph_ = small_model();
  RecordingLink link_;
};

TEST_F(StageWorkerTest, TheRootSendsActivationsAndReceivesGradientsAsTheScheduleSays) {
  const Stage root = cut_at("relu")[0];
  Executable executable = compile(root, {4}, 2);
  StageWorker worker(executable, link_, {}, fill);
  EXPECT_EQ(worker.train(7, 1e-3, std::vector<std::int64_t>{4, 4}).samples, 8);
  const auto sent = [](const std::string& edge, int micro_batch) {
    return "to 1: activation " + edge + " of step 7, micro-batch " + std::to_string(micro_batch);
  };
  std::vector<std::string> expected;
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    for (const StageOutput& output : root.outputs) expected.push_back(sent(output.value, micro_batch));
  }
  std::string hidden;
  for (const StageOutput& output : root.outputs) {
    if (output.gradient_from == 1) hidden = output.value;
  }
  expected.push_back("from 1: gradient of " + hidden + " of step 7, micro-batch 0");
  expected.push_back("from 1: gradient of " + hidden + " of step 7, micro-batch 1");
  EXPECT_EQ(link_.log, expected);
}

TEST_F(StageWorkerTest, ValidationSendsForwardOnlyUnderItsOwnKeys) {
  Executable executable = compile(cut_at("relu")[0], {4});
  StageWorker worker(executable, link_, {}, fill);
  worker.validate(3, std::vector<std::int64_t>{4});
  ASSERT_FALSE(link_.log.empty());
  for (const std::string& line : link_.log)
    EXPECT_THAT(line, HasSubstr("of validation batch 3, micro-batch 0"));
}

TEST_F(StageWorkerTest, TheLossIsTheMeanOverTheSamplesOfTheBatch) {
  Executable executable = compile(whole(), {1, 4});
  StageWorker worker(executable, link_, {}, fill);
  const BatchResult four = worker.validate(0, std::vector<std::int64_t>{4});
  Executable alone = compile(whole(), {1});
  // The fifth sample by itself: the first of micro-batch 1.
  StageWorker last(alone, link_, {},
                   [](const MicroBatch& micro_batch, const std::string& value, TensorView into) {
                     MicroBatch shifted = micro_batch;
                     shifted.index = 1;
                     fill(shifted, value, into);
                   });
  const BatchResult fifth = last.validate(0, std::vector<std::int64_t>{1});
  const BatchResult five = worker.validate(1, std::vector<std::int64_t>{4, 1});
  EXPECT_EQ(five.samples, 5);
  EXPECT_EQ(five.losses.at(0).correct, four.losses.at(0).correct + fifth.losses.at(0).correct);
  EXPECT_EQ(five.losses.at(0).positions, 5);
  EXPECT_DOUBLE_EQ(five.loss, four.loss * 4 / 5 + fifth.loss / 5);
}

// A batch of validation may be a part of what the mean is over.
TEST_F(StageWorkerTest, ABatchOfValidationIsAShareOfTheWhole) {
  Executable executable = compile(whole(), {4});
  StageWorker worker(executable, link_, {}, fill);
  const double alone = worker.validate(0, std::vector<std::int64_t>{4}).loss;
  EXPECT_DOUBLE_EQ(worker.validate(1, std::vector<std::int64_t>{4}, 16).loss, alone / 4);
}

// Without batch normalisation micro-batches only split a sum.
TEST_F(StageWorkerTest, MicroBatchesGiveTheGradientOfTheBatch) {
  const auto weights_after = [&](const std::vector<std::int64_t>& sizes) {
    Executable executable = compile(whole(), {1, 4, 5});
    StageWorker worker(executable, link_, {}, fill);
    worker.train(0, 1e-3, sizes);
    const ConstTensorView gradient = executable.gradient("first.weight");
    return std::vector<float>(gradient.as<float>().begin(), gradient.as<float>().end());
  };
  const std::vector<float> at_once = weights_after({5});
  const std::vector<float> in_parts = weights_after({4, 1});
  ASSERT_TRUE(std::ranges::any_of(at_once, [](float g) { return g != 0; }));
  for (std::size_t i = 0; i < at_once.size(); ++i) EXPECT_NEAR(in_parts[i], at_once[i], 1e-6F);
}

TEST_F(StageWorkerTest, LabelsWithoutAnOutputAreRefused) {
  const std::vector<Stage> stages = cut_at("relu");
  Executable executable = compile(stages[1], {4});
  StageWorker worker(executable, link_, {}, {});
  link_.integers[kLabels] = 2;
  try {
    worker.train(41, 1e-3, std::vector<std::int64_t>{4});
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr(
            "stage 1: step 41: sample 0 of the micro-batch has label 2; the model knows classes 0 to 1"));
  }
  link_.integers[kLabels] = -1;
  EXPECT_THROW(worker.validate(0, std::vector<std::int64_t>{4}), DataError);
}

TEST_F(StageWorkerTest, DigestsTellTheOrderOfSamples) {
  const auto digest_of = [&](const std::vector<std::vector<std::int64_t>>& steps) {
    Executable executable = compile(whole(), {1, 4});
    StageWorker worker(executable, link_, {}, fill);
    EXPECT_EQ(worker.sample_digest(), 0U);
    for (std::size_t i = 0; i < steps.size(); ++i) worker.train(static_cast<std::int64_t>(i), 1e-3, steps[i]);
    return worker.sample_digest();
  };
  EXPECT_EQ(digest_of({{4, 1}}), digest_of({{4, 1}}));
  EXPECT_NE(digest_of({{4, 1}}), digest_of({{1, 4}}));
  EXPECT_NE(digest_of({{4}}), digest_of({{4}, {4}}));
}

TEST_F(StageWorkerTest, AStemHasNoSamplesToDigest) {
  std::vector<OpId> begins{0, 1, 2};
  Executable executable = compile(cut(graph_, begins)[1], {4});
  StageWorker worker(executable, link_, {}, {});
  worker.train(0, 1e-3, std::vector<std::int64_t>{4});
  EXPECT_EQ(worker.sample_digest(), 0U);
  EXPECT_EQ(worker.times().micro_batches, 1);
}

TEST_F(StageWorkerTest, UnknownSchedulesAreRefusedAtOnce) {
  Executable executable = compile(whole(), {4});
  EXPECT_THROW(StageWorker(executable, link_, {.name = "zigzag"}, fill), ConfigError);
}

}  // namespace
}  // namespace rookery
