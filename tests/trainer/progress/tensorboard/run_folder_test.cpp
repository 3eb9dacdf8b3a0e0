#include "trainer/progress/tensorboard/run_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "models/base/files/json_file.hpp"
#include "models/base/libraries/json.hpp"
#include "tests/support/captured_log.hpp"
#include "tests/support/failing_files.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/trainer/progress/tensorboard/events_in.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest() { settings_.model = "nets/cnn net?a=1"; }

  RunDescription run(std::int64_t steps, const RunState* from = nullptr) const {
    return {settings_, data_, steps, losses_, from};
  }
  static void step(RunLog& log, std::int64_t step, std::int64_t steps, double loss) {
    Progress progress{.step = step, .steps = steps};
    progress.learning_rate = 0.5 / static_cast<double>(step);
    log.after_update(progress, {.loss = loss, .losses = {{.loss = loss}}, .samples = 4});
  }
  std::filesystem::path board() const { return folder_.path() / "runs" / "cnn-net-a=1"; }
  std::vector<std::string> lines() const {
    std::ifstream file(board() / "metrics.jsonl");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  ScratchFolder folder_;
  TrainingSettings settings_;
  DataSizes data_;
  std::vector<LossOp> losses_{{.value = "loss", .hits = "hits"}};
};

TEST_F(RunFolderTest, HasCurvesAndLinesAndSettings) {
  {
    RunFolder log(folder_.path());
    log.begin(run(2));
    step(log, 1, 2, 0.1234567891234);
    step(log, 2, 2, std::numeric_limits<double>::quiet_NaN());
    log.after_validation(
        {.step = 2, .steps = 2},
        {.loss = 0.25, .losses = {{.loss = 0.25, .positions = 4, .correct = 3}}, .samples = 4});
  }
  EXPECT_THAT(lines(), ElementsAre(R"({"step": 1, "loss/train": 0.123456789, "learning_rate": 0.5})",
                                   R"({"step": 2, "loss/train": null, "learning_rate": 0.25})",
                                   R"({"step": 2, "loss/validation": 0.25, "accuracy/validation": 75})"));
  ASSERT_EQ(event_files(board()).size(), 1);
  const std::filesystem::path file = event_files(board()).front();
  Curves curves = curves_in(file);
  ASSERT_EQ(curves["loss/train"].size(), 2);
  EXPECT_EQ(curves["loss/train"].front(), std::pair(std::int64_t{1}, static_cast<float>(0.123456789)));
  EXPECT_TRUE(std::isnan(curves["loss/train"].back().second));
  EXPECT_THAT(curves["learning_rate"], ElementsAre(Pair(1, 0.5F), Pair(2, 0.25F)));
  EXPECT_THAT(curves["loss/validation"], ElementsAre(Pair(2, 0.25F)));
  EXPECT_THAT(curves["accuracy/validation"], ElementsAre(Pair(2, 75.0F)));
  EXPECT_THAT(events_in(file)[2].summary().value(0).tensor().string_val(0),
              HasSubstr("\"model\": \"nets/cnn net?a=1\""));
}

TEST_F(RunFolderTest, HasNormsAndWhatThePlanShows) {
  const ScratchFolder plan;
  std::ofstream(plan.path() / "plan.png") << "\x89PNG\r\n\x1a\n" << std::string(16, '\1');
  std::ofstream(plan.path() / "graph.pb") << "a graph";
  {
    const RunState state{.step = 7};
    RunFolder log(folder_.path(), plan.path());
    log.begin(run(9, &state));
    step(log, 8, 9, 1);
    log.after_gradients(8, 0.5);
  }
  EXPECT_EQ(lines().back(), R"({"step": 8, "gradient_norm": 0.5})");
  const std::filesystem::path file = event_files(board()).front();
  EXPECT_THAT(curves_in(file)["gradient_norm"], ElementsAre(Pair(8, 0.5F)));
  const std::vector<tensorboard::Event> events = events_in(file);
  EXPECT_EQ(events[3].summary().value(0).tag(), "plan");
  EXPECT_TRUE(events[3].summary().value(0).has_image());
  EXPECT_EQ(events[3].step(), 7);
  EXPECT_EQ(events[4].graph_def(), "a graph") << "there is no picture of a step";
}

TEST_F(RunFolderTest, SeveralLossesAreCurvesOfTheirOwn) {
  losses_.push_back({.value = "second"});
  std::optional<RunFolder> log(folder_.path());
  log->begin(run(1));
  log->after_update({.step = 1, .steps = 1}, {.loss = 3, .losses = {{.loss = 1}, {.loss = 2}}, .samples = 4});
  log.reset();
  EXPECT_THAT(lines(), ElementsAre(R"({"step": 1, "loss/train": 3, "loss/train/loss": 1, )"
                                   R"("loss/train/second": 2, "learning_rate": 0})"));
}

TEST_F(RunFolderTest, GoesOnInANewFileAndForgetsWhatIsTrainedAgain) {
  for (const std::int64_t from : {0, 2}) {
    const RunState state{.step = from};
    RunFolder log(folder_.path());
    log.begin(run(4, from == 0 ? nullptr : &state));
    for (std::int64_t i = from + 1; i <= 4; ++i) step(log, i, 4, static_cast<double>(10 * from + i));
  }
  const std::vector<std::filesystem::path> files = event_files(board());
  ASSERT_EQ(files.size(), 2);
  EXPECT_EQ(events_in(files[1])[1].session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(events_in(files[1])[1].step(), 3);
  EXPECT_THAT(curves_in(files[1])["loss/train"], ElementsAre(Pair(3, 23.0F), Pair(4, 24.0F)));
  std::vector<double> losses;
  for (const std::string& line : lines()) losses.push_back(Json::parse(line).at("loss/train").get<double>());
  EXPECT_THAT(losses, ElementsAre(1, 2, 23, 24));
}

TEST_F(RunFolderTest, GoesOnBehindLinesThatAreNone) {
  std::filesystem::create_directories(board());
  std::ofstream(board() / "metrics.jsonl") << "{\"step\": 1}\nno JSON\n{\"step\": 2}\n";
  const RunState state{.step = 2};
  RunFolder log(folder_.path());
  log.begin(run(3, &state));
  EXPECT_THAT(lines(), ElementsAre("{\"step\": 1}"));
}

TEST_F(RunFolderTest, LongRunsAreThinned) {
  std::optional<RunFolder> log(folder_.path());
  const std::int64_t steps = 2 * RunFolder::kMostPoints + 3;
  log->begin(run(steps));
  for (const std::int64_t i : {1L, 2L, 3L, 4L, 5L, 6L, 7L}) step(*log, i, steps, 1);
  step(*log, steps, steps, 1);
  log.reset();
  std::vector<std::int64_t> told;
  for (const std::string& line : lines()) told.push_back(Json::parse(line).at("step").get<std::int64_t>());
  EXPECT_THAT(told, ElementsAre(3, 6, steps));
}

TEST_F(RunFolderTest, OnlyTheLeafThatIsAskedWrites) {
  settings_.tensorboard = false;
  RunFolder not_asked(folder_.path());
  not_asked.begin(run(1));
  step(not_asked, 1, 1, 1);
  settings_.tensorboard = true;
  losses_.clear();
  RunFolder no_leaf(folder_.path());
  no_leaf.begin(run(1));
  step(no_leaf, 1, 1, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "runs"));
}

TEST_F(RunFolderTest, ARunGoesOnWithoutAFolder) {
  std::ofstream(folder_.path() / "runs") << "a file in its place";
  CapturedLog told;
  RunFolder log(folder_.path());
  log.begin(run(1));
  step(log, 1, 1, 1);
  log.after_validation({.step = 1, .steps = 1}, {.loss = 1, .losses = {{.loss = 1}}, .samples = 4});
  EXPECT_THAT(told.lines(), ElementsAre(HasSubstr("training goes on without " + board().string())));
}

TEST_F(RunFolderTest, ARunGoesOnOnAFullDisk) {
  CapturedLog told;
  FailingFiles disk;
  disk.room = 0;
  {
    RunFolder log(folder_.path());
    log.begin(run(100));
    for (std::int64_t i = 1; i <= 100; ++i) step(log, i, 100, 1);
    log.after_validation({.step = 100, .steps = 100}, {.loss = 1, .losses = {{.loss = 1}}, .samples = 4});
    EXPECT_EQ(told.lines().size(), 2) << "once for each file";
    disk.room = FailingFiles::kUnlimited;
  }
  EXPECT_EQ(lines().size(), 101);
  EXPECT_EQ(curves_in(event_files(board()).front())["loss/train"].size(), 100);
}

}  // namespace
}  // namespace rookery
