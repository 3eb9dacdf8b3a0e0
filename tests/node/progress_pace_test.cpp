#include "node/progress_pace.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace rookery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

PaceTime at(std::chrono::steady_clock::duration since) {
  return PaceTime{} + std::chrono::hours(1) + since;
}

// The steps that a run tells of, which takes so long for each.
template <typename Pace>
std::vector<std::int64_t> told(Pace pace, std::int64_t steps, milliseconds per_step) {
  std::vector<std::int64_t> told;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const PaceTime now = at(step * per_step);
    if (!pace.is_due({.step = step, .steps = steps}, now)) continue;
    told.push_back(step);
    if constexpr (std::is_same_v<Pace, LinePace>) pace.note(now);
  }
  return told;
}

TEST(LinePace, AShortRunIsToldByTenths) {
  EXPECT_EQ(told(LinePace(), 100, milliseconds(10)),
            (std::vector<std::int64_t>{10, 20, 30, 40, 50, 60, 70, 80, 90}));
}

TEST(LinePace, ALongRunIsToldEveryHalfMinute) {
  const auto steps = told(LinePace(), 100'000, seconds(1));
  EXPECT_GE(steps.size(), 100'000 / 31);
  EXPECT_LE(steps.size(), 100'000 / 30 + 10);
  for (std::size_t i = 1; i < steps.size(); ++i) ASSERT_LE(steps[i] - steps[i - 1], 30);
}

TEST(LinePace, ARunThatStandsStillIsOverdue) {
  LinePace pace;
  EXPECT_FALSE(pace.is_overdue(at(seconds(0)))) << "nothing has been told yet";
  pace.note(at(seconds(5)));
  EXPECT_FALSE(pace.is_overdue(at(seconds(34))));
  EXPECT_TRUE(pace.is_overdue(at(seconds(35))));
  pace.note(at(seconds(35)));
  EXPECT_FALSE(pace.is_overdue(at(seconds(36))));
}

TEST(EventPace, OneASecondAndTheLast) {
  EXPECT_EQ(told(EventPace(seconds(1)), 25, milliseconds(100)), (std::vector<std::int64_t>{1, 11, 21, 25}));
  EXPECT_EQ(told(EventPace(seconds(0)), 3, milliseconds(0)), (std::vector<std::int64_t>{1, 2, 3}));
}

RC_GTEST_PROP(EventPace, NoTwoBeforeTheLastAreNearer, ()) {
  const auto steps = *rc::gen::inRange<std::int64_t>(1, 200);
  const auto per_step = milliseconds(*rc::gen::inRange(0, 700));
  const auto shown = told(EventPace(seconds(1)), steps, per_step);
  RC_ASSERT(shown.back() == steps);
  for (std::size_t i = 1; i + 1 < shown.size(); ++i)
    RC_ASSERT((shown[i] - shown[i - 1]) * per_step >= seconds(1));
}

}  // namespace
}  // namespace rookery
