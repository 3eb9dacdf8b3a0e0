#include "trainer/averaging/round_schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace rookery {
namespace {

using testing::ElementsAre;

std::vector<std::int64_t> rounds(const RoundSchedule& schedule, std::int64_t steps) {
  std::vector<std::int64_t> due;
  for (std::int64_t done = 0; done <= steps; ++done)
    if (schedule.is_united(done)) due.push_back(done);
  return due;
}

TEST(RoundSchedule, InModeGradientsIsEveryStep) {
  TrainingSettings settings;
  settings.averaging = {.mode = "gradients", .every = 7};
  EXPECT_THAT(rounds(RoundSchedule(settings, 5, true), 5), ElementsAre(1, 2, 3, 4, 5));
}

TEST(RoundSchedule, ComesEveryKUpdatesBeforeValidationsAndAtTheEnd) {
  TrainingSettings settings;
  settings.averaging = {.mode = "parameters", .every = 4};
  settings.epochs = 3;
  settings.validate_every = 2;
  EXPECT_THAT(rounds(RoundSchedule(settings, 5, true), 15), ElementsAre(4, 8, 10, 12, 15));
  EXPECT_THAT(rounds(RoundSchedule(settings, 5, false), 15), ElementsAre(4, 8, 12, 15));
}

TEST(RoundSchedule, IsByDefaultThatOfEpochs) {
  TrainingSettings settings;
  settings.averaging = {.mode = "diloco"};
  settings.epochs = 3;
  settings.validate_every = 0;
  EXPECT_THAT(rounds(RoundSchedule(settings, 5, false), 15), ElementsAre(5, 10, 15));
}

// 12 steps an epoch.
TEST(RoundSchedule, OfFragmentsSpreadsTheirRounds) {
  TrainingSettings settings;
  settings.averaging = {.mode = "diloco", .every = 8, .fragments = 4};
  settings.epochs = 2;
  settings.validate_every = 0;
  const RoundSchedule schedule(settings, 12, false);
  EXPECT_THAT(rounds(schedule, 24), ElementsAre(24));
  EXPECT_EQ(schedule.overlapped_updates(), 1);
  std::vector<std::vector<std::int64_t>> begins(4);
  for (std::int64_t done = 0; done <= 24; ++done) {
    for (int fragment = 0; fragment < 4; ++fragment)
      if (schedule.begins(done, fragment)) begins[fragment].push_back(done);
  }
  EXPECT_THAT(begins, ElementsAre(ElementsAre(8, 16), ElementsAre(2, 10, 18), ElementsAre(4, 12, 20),
                                  ElementsAre(6, 14, 22)));
  EXPECT_EQ(schedule.last_before(20, 2), 12);
  EXPECT_EQ(schedule.last_before(10, 1), 2);
  EXPECT_EQ(schedule.last_before(2, 1), 0);
}

TEST(RoundSchedule, ThatOverlapsWaitsForSomeRounds) {
  TrainingSettings settings;
  settings.averaging = {.mode = "parameters", .every = 4, .overlap = 2};
  settings.epochs = 2;
  settings.validate_every = 2;
  const RoundSchedule schedule(settings, 6, true);
  EXPECT_THAT(rounds(schedule, 12), ElementsAre(12));
  EXPECT_TRUE(schedule.begins(4, 0));
  EXPECT_FALSE(schedule.begins(6, 0));
  EXPECT_TRUE(schedule.begins(8, 0));
  EXPECT_FALSE(schedule.begins(12, 0));
  EXPECT_EQ(schedule.united_after(6), 12);

  settings.averaging = {.mode = "parameters", .every = 2, .overlap = 1};
  settings.epochs = 7;
  EXPECT_THAT(rounds(RoundSchedule(settings, 6, false), 42), ElementsAre(18, 36, 42));
}

RC_GTEST_PROP(RoundScheduleProperty, HasAsManyRoundsAsAreCounted, ()) {
  TrainingSettings settings;
  settings.averaging.mode = *rc::gen::arbitrary<bool>() ? "parameters" : "gradients";
  if (*rc::gen::arbitrary<bool>()) settings.averaging.every = *rc::gen::inRange<std::int64_t>(1, 20);
  settings.validate_every = *rc::gen::inRange(0, 4);
  if (settings.averaging.mode == "parameters" && settings.averaging.every && *rc::gen::arbitrary<bool>()) {
    settings.averaging.fragments = *rc::gen::inRange(1, static_cast<int>(*settings.averaging.every) + 1);
    settings.averaging.overlap = *rc::gen::inRange<std::int64_t>(0, 2);
  }
  const std::int64_t per_epoch = *rc::gen::inRange<std::int64_t>(1, 10);
  const bool validates = settings.validate_every > 0;
  // A whole number of all periods.
  const std::int64_t every = settings.averaging.every.value_or(per_epoch);
  const std::int64_t united_epochs = (8 * every + per_epoch - 1) / per_epoch;
  settings.epochs = static_cast<int>(every * std::max(1, settings.validate_every) * united_epochs);
  const std::int64_t steps = settings.epochs * per_epoch;
  const RoundSchedule schedule(settings, per_epoch, validates);
  double rounds = 0;
  for (std::int64_t done = 1; done <= steps; ++done) {
    rounds += schedule.is_united(done) ? 1 : 0;
    for (int fragment = 0; fragment < schedule.fragments(); ++fragment)
      rounds += schedule.begins(done, fragment) ? 1.0 / schedule.fragments() : 0;
  }
  const double expected = rounds / static_cast<double>(steps);
  RC_ASSERT(std::abs(schedule.rate().rounds() - expected) < 1e-12);
}

RC_GTEST_PROP(RoundScheduleProperty, KnowsTheRoundsAroundAStep, ()) {
  TrainingSettings settings;
  settings.averaging = {.mode = "parameters", .every = *rc::gen::inRange<std::int64_t>(1, 20)};
  settings.epochs = *rc::gen::inRange(1, 10);
  settings.validate_every = *rc::gen::inRange(0, 4);
  const std::int64_t per_epoch = *rc::gen::inRange<std::int64_t>(1, 10);
  const RoundSchedule schedule(settings, per_epoch, settings.validate_every > 0);
  const std::int64_t steps = settings.epochs * per_epoch;
  const std::int64_t at = *rc::gen::inRange<std::int64_t>(0, steps);
  std::int64_t next = at + 1;
  while (!schedule.is_united(next)) ++next;
  RC_ASSERT(schedule.united_after(at) == next);
  std::int64_t last = std::max<std::int64_t>(at - 1, 0);
  while (last > 0 && !schedule.is_united(last)) --last;
  RC_ASSERT(schedule.last_before(at, 0) == last);
}

}  // namespace
}  // namespace rookery
