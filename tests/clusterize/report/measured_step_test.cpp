#include "clusterize/report/pictures/measured_step.hpp"

#include <gmock/gmock.h>

#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

// Two nodes whose step `s` of two micro-batches lasts `seconds[s]` seconds; node_1 begins half a second
// later.
class MeasuredSteps : public testing::Test {
 protected:
  MeasuredSteps() {
    plan_.plan_id = "0123456789abcdef";
    plan_.micro_batches = 2;
  }

  std::filesystem::path write(int stage, const std::vector<double>& seconds, double later) {
    std::deque<TracedAction> actions;
    double now = 1000;
    for (std::size_t step = 0; step < seconds.size(); ++step) {
      const auto batch = static_cast<std::int64_t>(step);
      const double end = now + seconds[step];
      for (const int micro_batch : {0, 1})
        actions.push_back({{ActionKind::kForward, batch, micro_batch}, now + later, now + later + 0.1});
      actions.push_back({{ActionKind::kUpdate, batch, 1}, end - 0.1, end});
      now = end + 1;
    }
    std::filesystem::path path = folder_.path() / fmt::format("node_{}.json", stage);
    write_trace(path, {.plan_id = plan_.plan_id, .node = fmt::format("node_{}", stage), .stage = stage},
                actions);
    return path;
  }

  ScratchFolder folder_;
  ClusterPlan plan_;
};

TEST_F(MeasuredSteps, TheMedianIsDrawnFromItsBeginningOnTheFirstNode) {
  const std::vector<double> seconds{9, 3, 2, 4, 1};
  const MeasuredStep found = measured_step({write(1, seconds, 0.5), write(0, seconds, 0)}, plan_, 1);
  EXPECT_EQ(found.step, 1);
  EXPECT_NEAR(found.seconds, 3, 1e-5);
  ASSERT_EQ(found.rows.size(), 2U);
  EXPECT_EQ(found.rows[0].node, "node_0");
  ASSERT_EQ(found.rows[1].actions.size(), 3U);
  EXPECT_NEAR(found.rows[0].actions[0].begin, 0, 1e-5);
  EXPECT_NEAR(found.rows[1].actions[0].begin, 0.5, 1e-5);
  EXPECT_NEAR(found.rows[1].actions[2].end, 3, 1e-5);
  EXPECT_EQ(found.rows[1].actions[2].action.batch, 0);
}

TEST_F(MeasuredSteps, SeveralFollowEachOther) {
  const std::vector<double> seconds{5, 1, 1, 9};
  const MeasuredStep found = measured_step({write(0, seconds, 0)}, plan_, 2);
  EXPECT_EQ(found.step, 0);  // 7, 3 or 11 seconds
  EXPECT_NEAR(found.seconds, 7, 1e-5);
  EXPECT_EQ(found.rows[0].actions.size(), 6U);
  EXPECT_EQ(found.rows[0].actions.back().action.batch, 1);
}

TEST_F(MeasuredSteps, OthersAreRefused) {
  const std::filesystem::path one = write(0, {1}, 0);
  EXPECT_THAT(error_of([&] { measured_step({one, one}, plan_, 1); }), HasSubstr("node_0 is there twice"));
  EXPECT_THAT(error_of([&] { measured_step({one}, plan_, 2); }),
              HasSubstr("no 2 steps one behind the other"));
  plan_.micro_batches = 3;
  EXPECT_THAT(error_of([&] { measured_step({one}, plan_, 1); }), HasSubstr("no step of 3 micro-batches"));
  plan_.plan_id = "fedcba9876543210";
  EXPECT_THAT(error_of([&] { measured_step({one}, plan_, 1); }), HasSubstr("of plan 0123456789abcdef"));
  EXPECT_TRUE(measured_step({}, plan_, 1).rows.empty());
}

}  // namespace
}  // namespace rookery
