#include "trainer/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/process/program.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/pipeline.hpp"
#include "trainer/line_log.hpp"

namespace rookery {
namespace {

using testing::AllOf;
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
  void run(std::function<void(const Progress&)> on_progress = {}) {
    const Stage stage = std::move(cut(graph_, std::vector<OpId>{0}).front());
    Executable executable(
        stage, compile_options(settings_, data_, 0, 1, choose_kernels(graph_, settings_.batch_size)),
        initial_state(graph_, settings_.seed));
    const auto links = make_memory_links(1, std::chrono::seconds(1));
    Trainer trainer(executable, *links[0], digits_.get(),
                    {.settings = settings_,
                     .data = data_,
                     .output = folder_.path(),
                     .on_progress = std::move(on_progress)});
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
  const std::unique_ptr<Dataset> digits_ = open_dataset("digits", ROOKERY_SOURCE_DIR "/node_data");
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

TEST_F(TrainerTest, DataThatIsNotWhatWasPlannedIsRefused) {
  data_.train_samples = 1000;
  EXPECT_THAT(message_of<ConfigError>([&] { run(); }),
              AllOf(HasSubstr("1078"), HasSubstr("1000"), HasSubstr("run clusterize again")));
}

TEST_F(TrainerTest, SamplesOfAnotherSizeAreRefused) {
  const auto mnist = open_dataset("idx:datasets/mnist", ROOKERY_SOURCE_DIR "/node_data");
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
            if (progress.step == 2) std::raise(SIGTERM);
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
  Trainer trainer(executable, *links[0], digits_.get(),
                  {.settings = settings_, .data = data_, .on_progress = {}});
  EXPECT_THAT(message_of<TransportError>([&] { trainer.run(); }),
              AllOf(HasSubstr("stage 0: step 0: send activation"), HasSubstr("stage 1: it has ended")));
}

TEST(LineLog, FoldersThatAreNotThereAreNamed) {
  EXPECT_THROW(LineLog("/nowhere/at/all/losses.txt"), DataError);
}

// A limit on the size of files stands for the disk; it holds for the whole process, so each has its own.
void limit_file_size(rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  setrlimit(RLIMIT_FSIZE, &limit);
}

// The log goes there: standard error is a file, too, in a death test.
void log_to(std::ostringstream& text) {
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(text);
  sink->set_pattern("%v");
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
}

TEST(LineLog, AFullDiskIsToldAndTheLinesWaitForRoom) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "losses.txt";
  EXPECT_EXIT(
      {
        std::ostringstream told;
        log_to(told);
        LineLog log(path);
        log.write("1.5");
        limit_file_size(6);
        log.write("1.25");
        log.write("1.125");
        limit_file_size(RLIM_INFINITY);
        log.write("1");
        const std::string warning =
            path.string() +
            ": cannot write: File too large: training goes on, and the lines from 2 on "
            "wait in memory for room\n";
        std::_Exit(read_file(path, 100) == "1.5\n1.25\n1.125\n1\n" && told.str() == warning ? 42 : 1);
      },
      testing::ExitedWithCode(42), "");
}

TEST(LineLog, WhatFindsNoRoomIsToldAtTheEndAndLeavesNoHalfLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "losses.txt";
  EXPECT_EXIT(
      {
        std::ostringstream told;
        log_to(told);
        {
          LineLog log(path, 5);
          limit_file_size(6);
          for (int line = 0; line < 300000; ++line) log.write("1.5");
        }
        std::_Exit(read_file(path, 100) == "1.5\n" &&
                           told.str().ends_with(path.string() +
                                                " ends with line 1; the 299999 after it could "
                                                "not be written and are lost\n")
                       ? 42
                       : 1);
      },
      testing::ExitedWithCode(42), "");
}

TEST(LineLog, WithoutRoomItDoesNotBegin) {
  const ScratchFolder folder;
  std::string message;
  try {
    LineLog(folder.path() / "losses.txt", std::uint64_t{1} << 62);
  } catch (const DataError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("losses.txt: no room for 4611686018427387904 bytes: "));
}

TEST(CompileOptionsOfARun, FollowScheduleAndSizes) {
  TrainingSettings settings;
  settings.micro_batches = 3;
  const DataSizes data{.train_samples = 1078, .validation_samples = 719};
  const CompileOptions root = compile_options(settings, data, 0, 5, {});
  EXPECT_EQ(root.slots, 3);
  EXPECT_TRUE(root.accumulates);
  EXPECT_EQ(root.training_sizes, (std::vector<std::int64_t>{22, 20, 10}));
  EXPECT_EQ(root.inference_sizes, (std::vector<std::int64_t>{22, 20, 15}));
  EXPECT_EQ(compile_options(settings, data, 4, 5, {}).slots, 1);
  settings.micro_batches = 1;
  EXPECT_FALSE(compile_options(settings, data, 0, 5, {}).accumulates);
}

}  // namespace
}  // namespace rookery
