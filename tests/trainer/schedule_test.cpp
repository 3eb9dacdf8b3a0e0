#include "trainer/schedule/schedule.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "models/base/check.hpp"
#include "models/base/error.hpp"

namespace rookery {
namespace {

std::string one_f_one_b(int stage, int stages, int micro_batches) {
  return to_string(make_schedule("1f1b", stage, stages, micro_batches));
}

TEST(Schedule, OneStageRunsEveryMicroBatchToItsEnd) {
  EXPECT_EQ(one_f_one_b(0, 1, 1), "F0 B0 W0");
  EXPECT_EQ(one_f_one_b(0, 1, 3), "F0 B0 W0 F1 B1 W1 F2 B2 W2");
}

TEST(Schedule, EarlierStagesRunAheadByTheirDistanceToTheLast) {
  EXPECT_EQ(one_f_one_b(0, 3, 4), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  EXPECT_EQ(one_f_one_b(1, 3, 4), "F0 F1 B0 W0 F2 B1 W1 F3 B2 W2 B3 W3");
  EXPECT_EQ(one_f_one_b(2, 3, 4), "F0 B0 W0 F1 B1 W1 F2 B2 W2 F3 B3 W3");
}

TEST(Schedule, FewMicroBatchesAllRunAhead) {
  EXPECT_EQ(one_f_one_b(0, 3, 1), "F0 B0 W0");
  EXPECT_EQ(one_f_one_b(0, 5, 2), "F0 F1 B0 W0 B1 W1");
  EXPECT_EQ(one_f_one_b(3, 5, 2), "F0 F1 B0 W0 B1 W1");
  EXPECT_EQ(one_f_one_b(4, 5, 2), "F0 B0 W0 F1 B1 W1");
}

TEST(Schedule, InferenceIsForwardsOnly) {
  EXPECT_EQ(to_string(inference_schedule(3)), "F0 F1 F2");
  EXPECT_EQ(to_string(inference_schedule(0)), "");
}

TEST(Schedule, UnknownNamesAreRefusedWithTheKnownOnes) {
  try {
    make_schedule("2f2b", 0, 1, 1);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("'2f2b'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("1f1b"), std::string::npos);
  }
  for (const std::string& name : schedule_names()) EXPECT_FALSE(make_schedule(name, 0, 2, 2).empty());
}

TEST(Schedule, ImpossibleStagesAreBugs) {
  EXPECT_THROW(make_schedule("1f1b", 3, 3, 1), BugError);
  EXPECT_THROW(make_schedule("1f1b", -1, 3, 1), BugError);
  EXPECT_THROW(make_schedule("1f1b", 0, 1, 0), BugError);
}

// All stages against each other: an action runs when what it receives has been sent.
class Walk {
 public:
  Walk(const std::string& name, int stages, int micro_batches) {
    for (int k = 0; k < stages; ++k) lists_.push_back(make_schedule(name, k, stages, micro_batches));
    next_.resize(lists_.size());
  }

  // False when no stage can go on although one has actions left.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t k = 0; k < lists_.size(); ++k) moved |= advance(k);
    }
    for (std::size_t k = 0; k < lists_.size(); ++k) {
      if (next_[k] < lists_[k].size()) return false;
    }
    return true;
  }

 private:
  bool can_run(std::size_t stage, const Action& action) const {
    const auto has_run = [&](std::size_t k, ActionKind kind) {
      return done_.contains({k, kind, action.micro_batch});
    };
    switch (action.kind) {
      case ActionKind::kForward:
        return stage == 0 || has_run(stage - 1, ActionKind::kForward);
      case ActionKind::kBackwardInputs:
        return has_run(stage, ActionKind::kForward) &&
               (stage + 1 == lists_.size() || has_run(stage + 1, ActionKind::kBackwardInputs));
      case ActionKind::kBackwardWeights:
        return has_run(stage, ActionKind::kBackwardInputs);
    }
    return false;
  }

  bool advance(std::size_t stage) {
    if (next_[stage] == lists_[stage].size()) return false;
    const Action& action = lists_[stage][next_[stage]];
    if (!can_run(stage, action)) return false;
    done_.insert({stage, action.kind, action.micro_batch});
    ++next_[stage];
    return true;
  }

  std::vector<Schedule> lists_;
  std::vector<std::size_t> next_;
  std::set<std::tuple<std::size_t, ActionKind, int>> done_;
};

std::vector<int> micro_batches_of(const Schedule& schedule, ActionKind kind) {
  std::vector<int> found;
  for (const Action& action : schedule) {
    if (action.kind == kind) found.push_back(action.micro_batch);
  }
  return found;
}

RC_GTEST_PROP(ScheduleProperty, NoDeadlock, ()) {
  const int stages = *rc::gen::inRange(1, 12);
  const int micro_batches = *rc::gen::inRange(1, 20);
  RC_ASSERT(Walk("1f1b", stages, micro_batches).run());
}

RC_GTEST_PROP(ScheduleProperty, EachActionOnceInOrderAndWithinTheCap, ()) {
  const int stages = *rc::gen::inRange(1, 12);
  const int stage = *rc::gen::inRange(0, stages);
  const int micro_batches = *rc::gen::inRange(1, 20);
  const Schedule schedule = make_schedule("1f1b", stage, stages, micro_batches);
  std::vector<int> all(static_cast<std::size_t>(micro_batches));
  for (int i = 0; i < micro_batches; ++i) all[static_cast<std::size_t>(i)] = i;
  for (const ActionKind kind :
       {ActionKind::kForward, ActionKind::kBackwardInputs, ActionKind::kBackwardWeights}) {
    RC_ASSERT(micro_batches_of(schedule, kind) == all);
  }
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    if (schedule[i].kind != ActionKind::kBackwardInputs) continue;
    RC_ASSERT(schedule.at(i + 1) == (Action{ActionKind::kBackwardWeights, schedule[i].micro_batch}));
  }
  RC_ASSERT(in_flight(schedule) == std::min(micro_batches, stages - stage));
}

}  // namespace
}  // namespace rookery
