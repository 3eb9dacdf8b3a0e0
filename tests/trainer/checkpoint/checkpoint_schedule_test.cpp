#include "trainer/checkpoint/checkpoint_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/libraries/json.hpp"
#include "trainer/memory_link.hpp"
#include "trainer/settings/checkpoint_interval.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {
namespace {

using Clock = CheckpointSchedule::Clock;
using Unit = CheckpointInterval::Unit;

// The steps before which each of three stages takes a checkpoint, of a run of steps from `first` on whose
// clock stands at `time_of(step)`. The clock is the Root's: that of the others stands still.
template <typename TimeOf>
std::vector<std::vector<std::int64_t>> due_steps(CheckpointInterval interval, std::int64_t first,
                                                 std::int64_t steps, TimeOf&& time_of) {
  constexpr int kStages = 3;
  constexpr std::int64_t kStepsAnEpoch = 10;
  const auto links = make_memory_links(kStages, std::chrono::seconds(30));
  std::vector<std::vector<std::int64_t>> due(kStages);
  {
    std::vector<std::jthread> threads;
    for (int stage = 0; stage < kStages; ++stage) {
      threads.emplace_back([&, stage] {
        std::int64_t step = first;
        CheckpointSchedule schedule(
            interval, Agreement(*links.at(stage), stage, kStages),
            {.step = first, .epoch = first / kStepsAnEpoch},
            [&] { return Clock::time_point() + (stage == 0 ? time_of(step) : Clock::duration()); });
        for (++step; step <= first + steps; ++step) {
          const RunState run{.step = step, .epoch = step / kStepsAnEpoch, .samples = step % kStepsAnEpoch};
          if (schedule.is_due(run)) due.at(stage).push_back(step);
        }
      });
    }
  }
  return due;
}

Clock::duration no_time(std::int64_t /*step*/) {
  return {};
}

void expect_all(const std::vector<std::vector<std::int64_t>>& due,
                const std::vector<std::int64_t>& expected) {
  for (const std::vector<std::int64_t>& of_stage : due) EXPECT_EQ(of_stage, expected);
}

TEST(CheckpointSchedule, CountsSteps) {
  expect_all(due_steps({Unit::kSteps, 7}, 0, 30, no_time), {7, 14, 21, 28});
  expect_all(due_steps({Unit::kSteps, 7}, 14, 10, no_time), {21});
  expect_all(due_steps({Unit::kSteps, 1}, 3, 3, no_time), {4, 5, 6});
}

TEST(CheckpointSchedule, CountsEpochs) {
  expect_all(due_steps({Unit::kEpochs, 1}, 0, 35, no_time), {10, 20, 30});
  expect_all(due_steps({Unit::kEpochs, 2}, 0, 45, no_time), {20, 40});
}

TEST(CheckpointSchedule, OfSecondsTheRootsClockDecides) {
  const auto every_second = [](std::int64_t step) { return std::chrono::seconds(step); };
  expect_all(due_steps({Unit::kSeconds, 60}, 0, 200, every_second), {60, 120, 180});
  // Steps that take longer than the interval: one before each.
  const auto slow = [](std::int64_t step) { return std::chrono::minutes(step); };
  expect_all(due_steps({Unit::kSeconds, 1}, 0, 4, slow), {1, 2, 3, 4});
}

TEST(CheckpointSchedule, IsLittleLateWhereStepsBecomeSlower) {
  // A thousand a second, and from step 30000 on a hundred.
  const auto time_of = [](std::int64_t step) {
    return std::chrono::milliseconds(std::min<std::int64_t>(step, 30000) +
                                     10 * std::max<std::int64_t>(0, step - 30000));
  };
  const auto due = due_steps({Unit::kSeconds, 60}, 0, 60000, time_of);
  expect_all(due, due.front());
  ASSERT_EQ(due.front().size(), 5U);
  Clock::duration last{};
  for (const std::int64_t step : due.front()) {
    EXPECT_GE(time_of(step) - last, std::chrono::seconds(60));
    EXPECT_LE(time_of(step) - last, std::chrono::milliseconds(60000 + 60000 * 10 / 16));  // ten times as slow
    last = time_of(step);
  }
}

TEST(CheckpointSchedule, DecidesSeldom) {
  std::int64_t asked = 0;
  const auto time_of = [&](std::int64_t step) {
    ++asked;  // by the Root alone, once a decision
    return std::chrono::microseconds(100 * step);
  };
  expect_all(due_steps({Unit::kSeconds, 10}, 0, 250000, time_of), {100000, 200000});
  EXPECT_LE(asked, 100);
}

TEST(CheckpointInterval, IsWhatItsTextSays) {
  EXPECT_EQ(checkpoint_interval("30 s"), (CheckpointInterval{Unit::kSeconds, 30}));
  EXPECT_EQ(checkpoint_interval("10 min"), (CheckpointInterval{Unit::kSeconds, 600}));
  EXPECT_EQ(checkpoint_interval("2 h"), (CheckpointInterval{Unit::kSeconds, 7200}));
  EXPECT_EQ(checkpoint_interval("1 step"), (CheckpointInterval{Unit::kSteps, 1}));
  EXPECT_EQ(checkpoint_interval("500 steps"), (CheckpointInterval{Unit::kSteps, 500}));
  EXPECT_EQ(checkpoint_interval("1 epoch"), (CheckpointInterval{Unit::kEpochs, 1}));
  EXPECT_EQ(checkpoint_interval("3 epochs"), (CheckpointInterval{Unit::kEpochs, 3}));
  EXPECT_EQ(checkpoint_interval("never"), std::nullopt);
}

TEST(CheckpointInterval, OtherTextsAreRefusedBySettings) {
  for (const char* text :
       {"", "0 s", "10", "min", "10min", "1.5 h", "-1 s", "5 days", "never ", "10 min\n"}) {
    EXPECT_THROW(settings_from_json(Json{{"checkpoint_every", text}}, "train.json"), ConfigError) << text;
  }
}

}  // namespace
}  // namespace rookery
