#include "node/run_display.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>

namespace rookery {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = ProviderEvent::Kind;

ProviderEvent text_event(Kind kind, const std::string& node, const std::string& text) {
  return {.kind = kind, .node = node, .role = "root", .text = text};
}

ProviderEvent step_event(const std::string& node, std::int64_t step) {
  ProviderEvent event{.kind = Kind::kProgress, .node = node, .role = "root"};
  event.progress = {.epochs = 1, .step = step, .steps = 1000};
  return event;
}

// Where there is no terminal: the lines that events and time lead to.
class RunDisplayTest : public testing::Test {
 protected:
  RunDisplayTest() {
    testing::internal::CaptureStdout();
    display_ = std::make_unique<RunDisplay>(std::vector<std::string>{"node_0", "node_1"});
  }
  ~RunDisplayTest() override { testing::internal::GetCapturedStdout(); }

  void show(const ProviderEvent& event) { display_->show(event, now_); }
  void pass(seconds time) {
    now_ += time;
    display_->tick(now_);
  }
  // What has been printed since it was asked for last.
  static std::vector<std::string> lines() {
    std::istringstream text(testing::internal::GetCapturedStdout());
    testing::internal::CaptureStdout();
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  PaceTime now_ = PaceTime{} + std::chrono::hours(1);
  std::unique_ptr<RunDisplay> display_;
};

TEST_F(RunDisplayTest, TextsAreToldOnceAndStepsByTenths) {
  EXPECT_THAT(lines(), IsEmpty());
  show(text_event(Kind::kWaiting, "node_0", "waiting for node_1"));
  show(text_event(Kind::kWaiting, "node_0", "waiting for node_1"));
  show(text_event(Kind::kTraining, "node_0", "all nodes are here: training"));
  EXPECT_THAT(lines(), ElementsAre("node_0  root       waiting for node_1",
                                   "node_0  root       all nodes are here: training"));
  for (int step = 1; step <= 200; ++step) show(step_event("node_0", step));
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("step 100/1000"), HasSubstr("step 200/1000")));
}

TEST_F(RunDisplayTest, HalfAMinuteNeverPassesWithoutALineUntilTheEnd) {
  pass(seconds(60));
  EXPECT_THAT(lines(), IsEmpty()) << "nothing is known yet";
  show(text_event(Kind::kTraining, "node_0", "all nodes are here: training"));
  lines();
  pass(seconds(29));
  show(step_event("node_0", 1));
  EXPECT_THAT(lines(), IsEmpty());
  pass(seconds(1));
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("step 1/1000")));
  pass(seconds(30));
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("step 1/1000"))) << "it is still there";
  show(step_event("node_0", 1000));
  EXPECT_THAT(lines(), IsEmpty()) << "its loss and accuracy are still to come";
  show(text_event(Kind::kDone, "node_0", "a report"));
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("step 1000/1000")));
  pass(seconds(60));
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(RunDisplayTest, AFailureIsTheLastThatIsToldOfANode) {
  show(step_event("node_1", 100));
  lines();
  show(text_event(Kind::kFailed, "node_1", "ended with exit code 1"));
  EXPECT_THAT(lines(), ElementsAre("node_1  root       ended with exit code 1"));
  pass(seconds(60));
  EXPECT_THAT(lines(), IsEmpty());
}

}  // namespace
}  // namespace rookery
