#include "trainer/schedule/schedule.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/named_rows.hpp"

namespace rookery {
namespace {

ScheduleSettings async(std::optional<int> max_staleness = std::nullopt) {
  return {.name = "async", .max_staleness = max_staleness};
}

std::string one_f_one_b(int stage, int stages, int micro_batches) {
  return to_string(actions(Schedule({}, stage, stages, 1, micro_batches)), micro_batches);
}

std::string async_text(int stage, int stages, int batches, std::optional<int> max_staleness = std::nullopt,
                       int micro_batches = 1) {
  const Schedule schedule(async(max_staleness), stage, stages, batches, micro_batches);
  return to_string(actions(schedule), micro_batches);
}

TEST(Schedule, OneStageRunsEveryMicroBatchToItsEnd) {
  EXPECT_EQ(one_f_one_b(0, 1, 1), "F0 B0 W0 U0");
  EXPECT_EQ(one_f_one_b(0, 1, 3), "F0 B0 W0 F1 B1 W1 F2 B2 W2 U0");
}

TEST(Schedule, EarlierStagesRunAheadByTheirDistanceToTheLast) {
  EXPECT_EQ(one_f_one_b(0, 3, 4), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3 U0");
  EXPECT_EQ(one_f_one_b(1, 3, 4), "F0 F1 B0 W0 F2 B1 W1 F3 B2 W2 B3 W3 U0");
  EXPECT_EQ(one_f_one_b(2, 3, 4), "F0 B0 W0 F1 B1 W1 F2 B2 W2 F3 B3 W3 U0");
}

TEST(Schedule, FewMicroBatchesAllRunAhead) {
  EXPECT_EQ(one_f_one_b(0, 3, 1), "F0 B0 W0 U0");
  EXPECT_EQ(one_f_one_b(0, 5, 2), "F0 F1 B0 W0 B1 W1 U0");
  EXPECT_EQ(one_f_one_b(3, 5, 2), "F0 F1 B0 W0 B1 W1 U0");
  EXPECT_EQ(one_f_one_b(4, 5, 2), "F0 B0 W0 F1 B1 W1 U0");
}

TEST(Schedule, ASynchronousBatchBeginsWhenTheOneBeforeIsUpdated) {
  EXPECT_EQ(to_string(actions(Schedule({}, 0, 2, 2, 3)), 3),
            "F0 F1 B0 W0 F2 B1 W1 B2 W2 U0 F3 F4 B3 W3 F5 B4 W4 B5 W5 U1");
}

TEST(Schedule, AnAsynchronousOneUpdatesAfterEveryBatchAndFillsThePipelineOnce) {
  EXPECT_EQ(async_text(0, 3, 5), "F0 F1 F2 B0 W0 U0 F3 B1 W1 U1 F4 B2 W2 U2 B3 W3 U3 B4 W4 U4");
  EXPECT_EQ(async_text(1, 3, 3), "F0 F1 B0 W0 U0 F2 B1 W1 U1 B2 W2 U2");
  EXPECT_EQ(async_text(2, 3, 2), "F0 B0 W0 U0 F1 B1 W1 U1");
  EXPECT_EQ(async_text(0, 3, 1), "F0 B0 W0 U0");
}

TEST(Schedule, StalenessIsBounded) {
  EXPECT_EQ(async_text(0, 4, 3, 0), "F0 B0 W0 U0 F1 B1 W1 U1 F2 B2 W2 U2");
  EXPECT_EQ(async_text(0, 4, 3, 1), "F0 F1 B0 W0 U0 F2 B1 W1 U1 B2 W2 U2");
  EXPECT_EQ(staleness(async(), 0, 4, 1), 3);
  EXPECT_EQ(staleness(async(), 3, 4, 1), 0);
  EXPECT_EQ(staleness(async(2), 0, 4, 1), 2);
  EXPECT_EQ(staleness({}, 0, 4, 1), 0);
}

// As PipeDream-2BW: with as many micro-batches as there are stages, gradients are one update old.
TEST(Schedule, AnAsynchronousUpdateIsOfAllMicroBatchesOfItsBatch) {
  EXPECT_EQ(async_text(0, 3, 2, std::nullopt, 2), "F0 F1 F2 B0 W0 F3 B1 W1 U0 B2 W2 B3 W3 U1");
  EXPECT_EQ(async_text(2, 3, 2, std::nullopt, 2), "F0 B0 W0 F1 B1 W1 U0 F2 B2 W2 F3 B3 W3 U1");
  EXPECT_EQ(async_text(0, 4, 2, 0, 2), async_text(3, 4, 2, 0, 2));
  EXPECT_EQ(staleness(async(), 0, 4, 2), 2);
  EXPECT_EQ(staleness(async(), 0, 4, 3), 1);
  EXPECT_EQ(staleness(async(), 1, 4, 4), 1);
  EXPECT_EQ(staleness(async(), 3, 4, 4), 0);
  EXPECT_EQ(in_flight(async(1), 0, 8, 2), 3);
}

// ZB-H1 of the paper, for three stages: the last one's first gradients are on their way before any W.
TEST(Schedule, GradientsOfWeightsWaitWhereOthersWaitForGradientsOfInputs) {
  const auto text = [](int stage, ScheduleSettings settings) {
    settings.name = "zb";
    return to_string(actions(Schedule(settings, stage, 3, 1, 5)), 5);
  };
  EXPECT_EQ(text(0, {}), "F0 F1 F2 B0 W0 F3 B1 W1 F4 B2 W2 B3 W3 B4 W4 U0");
  EXPECT_EQ(text(1, {}), "F0 F1 B0 F2 B1 W0 F3 B2 W1 F4 B3 W2 B4 W3 W4 U0");
  EXPECT_EQ(text(2, {}), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 F4 B4 W2 W3 W4 U0");
  EXPECT_EQ(text(2, {.in_flight = 5}), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 W0 W1 W2 W3 W4 U0");
  for (int stage = 0; stage < 3; ++stage) {
    EXPECT_EQ(slots({.name = "zb"}, stage, 3, 5), 3);
    EXPECT_EQ(slots({.name = "zb"}, stage, 3, 2), 2);
    EXPECT_EQ(weights_behind({.name = "zb"}, stage, 3, 5), stage);
    EXPECT_EQ(weights_behind({}, stage, 3, 5), 0);
  }
  EXPECT_EQ(to_string(actions(Schedule({.name = "zb"}, 0, 1, 1, 2)), 2), "F0 B0 W0 F1 B1 W1 U0");
}

// n_k = 1 + 4 (2 - k) / 2: twice as many as usual are on their way between two stages.
TEST(Schedule, MoreInFlightRunFurtherAhead) {
  const auto text = [](int stage, int in_flight) {
    return to_string(actions(Schedule({.in_flight = in_flight}, stage, 3, 1, 6)), 6);
  };
  EXPECT_EQ(text(0, 5), "F0 F1 F2 F3 F4 B0 W0 F5 B1 W1 B2 W2 B3 W3 B4 W4 B5 W5 U0");
  EXPECT_EQ(text(1, 5), "F0 F1 F2 B0 W0 F3 B1 W1 F4 B2 W2 F5 B3 W3 B4 W4 B5 W5 U0");
  EXPECT_EQ(text(2, 5), "F0 B0 W0 F1 B1 W1 F2 B2 W2 F3 B3 W3 F4 B4 W4 F5 B5 W5 U0");
  EXPECT_EQ(text(0, 1), text(2, 5));  // one micro-batch after the other
  for (int stage = 0; stage < 3; ++stage) EXPECT_EQ(text(stage, 3), one_f_one_b(stage, 3, 6));
  EXPECT_EQ(in_flight({.in_flight = 4}, 0, 1, 6), 1);  // one stage has nobody to wait for
  EXPECT_EQ(in_flight({.in_flight = kMostInFlight}, 0, 2, 4), 4);
}

TEST(Schedule, WhatAPlanChoosesGoesBeforeAllElse) {
  const ScheduleSettings settings{.in_flight = 2, .planned = {4, 2, 1}};
  EXPECT_EQ(in_flight(settings, 0, 3, 8), 4);
  EXPECT_EQ(in_flight(settings, 0, 3, 3), 3);
  EXPECT_EQ(in_flight(settings, 1, 3, 8), 2);
  EXPECT_EQ(most_in_flight(settings, 0, 3, 8), 4);
  EXPECT_EQ(staleness({.name = "async", .planned = {4, 2, 1}}, 0, 3, 1), 3);
  // Planned for batches of four micro-batches; a cluster's share has three.
  const ScheduleSettings bounded{.name = "async", .max_staleness = 1, .planned = {5, 4, 3, 2, 1}};
  EXPECT_EQ(in_flight(bounded, 0, 5, 4), 5);
  EXPECT_EQ(in_flight(bounded, 0, 5, 3), 4);
  EXPECT_EQ(staleness(bounded, 0, 5, 3), 1);
  EXPECT_THROW(in_flight(settings, 0, 2, 8), BugError);
}

TEST(Schedule, APlanMayChooseWhatSettingsLeaveOpen) {
  EXPECT_EQ(most_in_flight({}, 0, 3, 8), 8);
  EXPECT_EQ(most_in_flight({}, 1, 3, 8), 8);
  EXPECT_EQ(most_in_flight({}, 2, 3, 8), 1);
  EXPECT_EQ(most_in_flight({.in_flight = 5}, 0, 3, 8), 5);
  EXPECT_EQ(most_in_flight(async(), 0, 3, 1), 3);  // older gradients are the user's to allow
  EXPECT_EQ(most_in_flight(async(7), 0, 3, 1), 8);
  EXPECT_EQ(most_in_flight(async(7), 0, 3, 4), 29);
  EXPECT_EQ(most_in_flight(async(kMostStaleness), 0, 3, 4), 1 + kMostStaleness);
  EXPECT_EQ(most_in_flight(async(7), 2, 3, 1), 1);
}

TEST(Schedule, UnknownNamesAreRefusedWithTheKnownOnes) {
  try {
    actions(Schedule({.name = "2f2b"}, 0, 1, 1, 1));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("'2f2b'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("1f1b, zb, async, interleaved, zbv"), std::string::npos);
  }
  for (const std::string& name : names_of(schedule_kinds()))
    EXPECT_FALSE(actions(Schedule({.name = name}, 0, 4, 1, 1)).empty());
}

TEST(Schedule, ImpossibleStagesAreBugs) {
  EXPECT_THROW(Schedule({}, 3, 3, 1, 1), BugError);
  EXPECT_THROW(Schedule({}, -1, 3, 1, 1), BugError);
  EXPECT_THROW(Schedule({}, 0, 1, 0, 1), BugError);
  EXPECT_THROW(Schedule({}, 0, 1, 1, 0), BugError);
}

// All stages against each other: an action runs when what it receives has been sent.
class Walk {
 public:
  Walk(const ScheduleSettings& settings, int stages, int batches, int micro_batches) {
    for (int k = 0; k < stages; ++k)
      lists_.push_back(actions(Schedule(settings, k, stages, batches, micro_batches)));
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
      return done_.contains({k, kind, action.batch, action.micro_batch});
    };
    switch (action.kind) {
      case ActionKind::kForward:
        return stage == 0 || has_run(stage - 1, ActionKind::kForward);
      case ActionKind::kBackwardInputs:
        return has_run(stage, ActionKind::kForward) &&
               (stage + 1 == lists_.size() || has_run(stage + 1, ActionKind::kBackwardInputs));
      case ActionKind::kBackwardWeights:
        return has_run(stage, ActionKind::kBackwardInputs);
      case ActionKind::kUpdate:
        return has_run(stage, ActionKind::kBackwardWeights);
    }
    return false;
  }

  bool advance(std::size_t stage) {
    if (next_[stage] == lists_[stage].size()) return false;
    const Action& action = lists_[stage][next_[stage]];
    if (!can_run(stage, action)) return false;
    done_.insert({stage, action.kind, action.batch, action.micro_batch});
    ++next_[stage];
    return true;
  }

  std::vector<std::vector<Action>> lists_;
  std::vector<std::size_t> next_;
  std::set<std::tuple<std::size_t, ActionKind, std::int64_t, int>> done_;
};

struct ScheduleCase {
  ScheduleSettings settings;
  int stages = 1;
  int stage = 0;
  int batches = 1;
  int micro_batches = 1;
};

ScheduleCase any_case() {
  ScheduleCase made;
  const bool is_async = *rc::gen::arbitrary<bool>();
  made.stages = *rc::gen::inRange(1, 12);
  made.stage = *rc::gen::inRange(0, made.stages);
  made.batches = *rc::gen::inRange(1, 30);
  made.micro_batches = *rc::gen::inRange(1, 20);
  if (!is_async && *rc::gen::arbitrary<bool>()) made.settings.name = "zb";
  if (is_async) {
    made.settings = async();
    if (*rc::gen::arbitrary<bool>()) made.settings.max_staleness = *rc::gen::inRange(0, 12);
  }
  if (*rc::gen::arbitrary<bool>()) made.settings.in_flight = *rc::gen::inRange(1, 25);
  if (*rc::gen::inRange(0, 3) == 0) {
    for (int stage = 0; stage < made.stages; ++stage)
      made.settings.planned.push_back(*rc::gen::inRange(1, 25));
    std::ranges::sort(made.settings.planned, std::greater<>());
  }
  return made;
}

RC_GTEST_PROP(ScheduleProperty, NoDeadlock, ()) {
  const ScheduleCase of = any_case();
  RC_ASSERT(Walk(of.settings, of.stages, of.batches, of.micro_batches).run());
}

RC_GTEST_PROP(ScheduleProperty, EachActionOnceInOrderAndWithinTheCap, ()) {
  const ScheduleCase of = any_case();
  std::int64_t counts[4] = {0, 0, 0, 0};  // of F, B, W and U
  std::int64_t most_in_flight = 0;
  std::int64_t most_kept = 0;
  const std::int64_t behind = weights_behind(of.settings, of.stage, of.stages, of.micro_batches);
  std::int64_t most_stale = 0;
  std::vector<std::int64_t> updates_at_begin;  // by batch
  for (const Action& action :
       actions(Schedule(of.settings, of.stage, of.stages, of.batches, of.micro_batches))) {
    auto& [forwards, inputs, weights, updates] = counts;
    const std::int64_t number = action.batch * of.micro_batches + action.micro_batch;
    switch (action.kind) {
      case ActionKind::kForward:
        RC_ASSERT(number == forwards++);
        if (action.micro_batch == 0) updates_at_begin.push_back(updates);
        break;
      case ActionKind::kBackwardInputs:
        RC_ASSERT(number == inputs++);
        break;
      case ActionKind::kBackwardWeights:
        RC_ASSERT(number == weights++);
        RC_ASSERT(weights <= inputs);
        // As late as that, but for the end of the batch.
        RC_ASSERT(inputs - weights == behind || inputs % of.micro_batches == 0);
        break;
      case ActionKind::kUpdate:
        RC_ASSERT(action.batch == updates++);
        RC_ASSERT(weights == updates * of.micro_batches);  // directly after the batch's last W
        most_stale = std::max(most_stale, action.batch - updates_at_begin[action.batch]);
        break;
    }
    RC_ASSERT(inputs <= forwards);
    most_in_flight = std::max(most_in_flight, forwards - inputs);
    most_kept = std::max(most_kept, forwards - weights);
  }
  RC_ASSERT(counts[0] == of.batches * of.micro_batches);
  RC_ASSERT(counts[2] == counts[0]);
  RC_ASSERT(counts[3] == of.batches);
  const int cap = in_flight(of.settings, of.stage, of.stages, of.micro_batches);
  const bool is_full = is_synchronous(of.settings) || of.batches * of.micro_batches >= cap;  // the pipeline
  RC_ASSERT((is_full ? most_in_flight == cap : most_in_flight <= cap));
  const int room = slots(of.settings, of.stage, of.stages, of.micro_batches);
  RC_ASSERT((is_full ? most_kept == room : most_kept <= room));
  const int bound = staleness(of.settings, of.stage, of.stages, of.micro_batches);
  const bool is_oldest = is_synchronous(of.settings) || of.batches > bound;  // a batch that begins in time
  RC_ASSERT((is_oldest ? most_stale == bound : most_stale <= bound));
}

}  // namespace
}  // namespace rookery
