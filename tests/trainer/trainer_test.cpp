#include "trainer/trainer.hpp"
#include "tests/support/progress_callback.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/process/stop_signals.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/repository.hpp"
#include "tests/support/stop_with.hpp"
#include "trainer/progress/text_files.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> numbers_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<double> numbers;
  for (std::string line; std::getline(file, line);) numbers.push_back(std::stod(line));
  return numbers;
}

class TrainerTest : public testing::Test {
 protected:
  TrainerTest() {
    settings_.epochs = 3;
    settings_.batch_size = 300;
    settings_.validate_every = 2;
    graph_ = cnn_net();
    add_loss(graph_, settings_.loss);
  }

  // Runs one node.
  void run(const ProgressCallback::Function& on_progress = [](const Progress&) {}) {
    ProgressCallback callback(on_progress);
    run({&callback});
  }
  // With the files, and `more` behind them.
  void run(std::vector<RunLog*> more) {
    const Stage stage = std::move(cut(graph_, std::vector<OpId>{0}).front());
    Executable executable(
        stage, compile_options(settings_, data_, 0, 1, choose_kernels(graph_, settings_.batch_size)),
        initial_state(graph_, settings_.seed));
    const auto links = make_memory_links(1, std::chrono::seconds(1));
    TextFiles files(folder_.path());
    more.insert(more.begin(), &files);
    Trainer trainer(executable, *links[0], digits_.get(),
                    {.settings = settings_, .data = data_, .logs = std::move(more)});
    trainer.run();
    steps_done_ = trainer.steps_done();
  }

  template <typename Error, typename Action>
  static std::string message_of(Action&& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no such error";
  }

  const ScratchFolder folder_;
  const std::unique_ptr<Dataset> digits_ = open_dataset("digits", kNodeData);
  TrainingSettings settings_;
  DataSizes data_{.train_samples = 1078, .validation_samples = 719};
  Graph graph_;
  std::int64_t steps_done_ = 0;
};

TEST_F(TrainerTest, WritesALossAStepAndAnAccuracyAValidation) {
  std::vector<double> losses;
  std::vector<double> accuracies;
  run([&](const Progress& progress) {
    if (progress.loss) losses.push_back(*progress.loss);
    if (progress.accuracy) accuracies.push_back(*progress.accuracy);
    // Flushed live: the file already has what is told here.
    EXPECT_EQ(numbers_in(folder_.path() / "losses.txt").size(), losses.size());
  });
  EXPECT_EQ(steps_done_, 12);  // 300, 300, 300, 178, three times
  const std::vector<double> written = numbers_in(folder_.path() / "losses.txt");
  ASSERT_EQ(written.size(), 12U);
  for (std::size_t i = 0; i < written.size(); ++i) EXPECT_NEAR(written[i], losses[i], 1e-8 * losses[i]);
  EXPECT_EQ(accuracies.size(), 1U);  // after epoch 2 of 3
  ASSERT_EQ(numbers_in(folder_.path() / "val_accuracies.txt").size(), 1U);
  EXPECT_NEAR(numbers_in(folder_.path() / "val_accuracies.txt")[0], accuracies[0], 1e-4);
}

TEST_F(TrainerTest, KeepsTheOlderFiles) {
  run();
  const std::string first = read_file(folder_.path() / "losses.txt", 1 << 20);
  settings_.seed = 7;
  run();
  EXPECT_EQ(read_file(folder_.path() / "losses.txt.1", 1 << 20), first);
  EXPECT_NE(read_file(folder_.path() / "losses.txt", 1 << 20), first);
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "val_accuracies.txt.1"));
}

TEST_F(TrainerTest, TellsHowFarItIs) {
  std::vector<Progress> told;
  run([&](const Progress& progress) { told.push_back(progress); });
  ASSERT_EQ(told.size(), 13U);
  for (std::size_t i = 0; i + 1 < told.size(); ++i) EXPECT_LE(told[i].step, told[i + 1].step);
  EXPECT_EQ(told.front().step, 1);
  EXPECT_EQ(told.front().steps, 12);
  EXPECT_EQ(told.back().epoch, 2);
  EXPECT_EQ(told.back().step, 12);
  EXPECT_EQ(told.back().seconds_left, 0);
  EXPECT_GT(told.back().samples_per_second, 0);
  EXPECT_GT(told.front().seconds_left, 0);
}

// Writes down what it is told.
class Recorder : public RunLog {
 public:
  void begin(const RunDescription& run) override {
    told.push_back("begin with " + std::to_string(run.losses.size()) + " loss");
  }
  void after_update(const Progress& progress, const BatchResult& batch) override {
    told.push_back("update " + std::to_string(progress.step));
    EXPECT_EQ(progress.loss, batch.loss);
    EXPECT_FALSE(progress.accuracy);
    weighted += batch.loss * static_cast<double>(batch.samples);
  }
  void after_validation(const Progress& progress, const BatchResult& total) override {
    told.push_back("validation of " + std::to_string(total.samples));
    EXPECT_EQ(progress.accuracy, total.accuracy());
    EXPECT_FALSE(progress.loss);
  }
  void after_epoch(const Progress& progress, double mean_loss) override {
    told.push_back("epoch " + std::to_string(progress.epoch));
    EXPECT_DOUBLE_EQ(mean_loss, weighted / 1078);
    weighted = 0;
  }

  std::vector<std::string> told;
  double weighted = 0;  // sum of the losses of the epoch's samples
};

TEST_F(TrainerTest, TellsEveryLogInTheOrderOfTheRun) {
  settings_.epochs = 2;
  Recorder first;
  Recorder second;
  run({&first, &second});
  EXPECT_THAT(first.told,
              ElementsAre("begin with 1 loss", "update 1", "update 2", "update 3", "update 4", "epoch 0",
                          "update 5", "update 6", "update 7", "update 8", "epoch 1", "validation of 719"));
  EXPECT_EQ(second.told, first.told);
}

TEST_F(TrainerTest, WhatALogThrowsEndsTheRun) {
  EXPECT_THAT(message_of<DataError>([&] {
                run([](const Progress& progress) {
                  if (progress.step == 2) throw DataError("no more");
                });
              }),
              HasSubstr("no more"));
  EXPECT_EQ(numbers_in(folder_.path() / "losses.txt").size(), 2U);
}

// Nothing is known of them where no loss is computed.
TEST_F(TrainerTest, OtherStagesThanTheLeafWriteNoFiles) {
  TextFiles files(folder_.path());
  files.begin({settings_, data_, {}});
  files.after_update({}, {});
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(TrainerTest, DataThatIsNotWhatWasPlannedIsRefused) {
  data_.train_samples = 1000;
  EXPECT_THAT(message_of<ConfigError>([&] { run(); }),
              AllOf(HasSubstr("1078"), HasSubstr("1000"), HasSubstr("run clusterize again")));
}

TEST_F(TrainerTest, SamplesOfAnotherSizeAreRefused) {
  const auto mnist = open_dataset("idx:datasets/mnist", kNodeData);
  settings_.data = "idx:datasets/mnist";
  const std::vector<OpId> begins{0};
  EXPECT_THAT(
      message_of<ConfigError>([&] { run_pipeline(cnn_net(), begins, settings_, *mnist); }),
      HasSubstr("data: idx:datasets/mnist: the model's input 'input' is f32[batch, 1, 8, 8], but 'input' of "
                "the data set is f32[batch, 784]"));
}

TEST_F(TrainerTest, AStopSignalEndsTheRunBetweenSteps) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        catch_stop_signals();
        try {
          run([](const Progress& progress) {
            if (progress.step == 2) stop_with(SIGTERM);
          });
        } catch (const Interrupted& interrupted) {
          const auto losses = numbers_in(folder_.path() / "losses.txt").size();
          std::_Exit(interrupted.signal() == SIGTERM && losses == 2 ? 42 : 1);
        }
        std::_Exit(2);
      },
      testing::ExitedWithCode(42), "");
}

// A peer that ends takes the others with it, each naming stage, step and peer.
TEST_F(TrainerTest, AStageWhosePeerEndsSaysSo) {
  const std::vector<Stage> stages = cut(graph_, std::vector<OpId>{0, 5});
  auto links = make_memory_links(2, std::chrono::seconds(60));
  links[1].reset();
  StateDict state = initial_state(graph_, 1);
  std::erase_if(state, [&](const auto& entry) { return !stages[0].graph.find(entry.first); });
  Executable executable(stages[0],
                        compile_options(settings_, data_, 0, 2, choose_kernels(graph_, settings_.batch_size)),
                        state);
  Trainer trainer(executable, *links[0], digits_.get(), {.settings = settings_, .data = data_, .logs = {}});
  EXPECT_THAT(message_of<TransportError>([&] { trainer.run(); }),
              AllOf(HasSubstr("stage 0: step 0: send activation"), HasSubstr("rank 1: it has ended")));
}

TEST(CompileOptionsOfARun, FollowScheduleAndSizes) {
  TrainingSettings settings;
  settings.micro_batches = 3;
  const DataSizes data{.train_samples = 1078, .validation_samples = 719};
  const CompileOptions root = compile_options(settings, data, 0, 5, {});
  EXPECT_EQ(root.slots, 3);
  EXPECT_EQ(root.micro_batches, 3);
  EXPECT_EQ(root.training_sizes, (std::vector<std::int64_t>{22, 20, 10}));
  EXPECT_EQ(root.inference_sizes, (std::vector<std::int64_t>{22, 20, 15}));
  EXPECT_EQ(compile_options(settings, data, 4, 5, {}).slots, 1);
  settings.micro_batches = 1;
  EXPECT_EQ(compile_options(settings, data, 0, 5, {}).micro_batches, 1);
}

}  // namespace
}  // namespace rookery
