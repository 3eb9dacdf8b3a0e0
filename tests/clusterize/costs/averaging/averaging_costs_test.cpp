#include "clusterize/costs/averaging/averaging_costs.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

AveragingCosts costs_of(const AveragingSettings& averaging) {
  TrainingSettings settings;
  settings.averaging = averaging;
  const TrainingTask task = cnn_task(settings);
  return averaging_costs(task.graph, settings, task.data);
}

TEST(AveragingCosts, CountTheBytesThatTravel) {
  const TrainingTask task = cnn_task();
  double parameters = 0;
  double buffers = 0;
  for (const ValueId id : averaged_values(task.graph)) {
    const Value& value = task.graph.value(id);
    (value.kind == ValueKind::kParameter ? parameters : buffers) += static_cast<double>(value.type.bytes());
  }
  ASSERT_GT(buffers, 0);
  const double whole = 1 + buffers / parameters;
  EXPECT_NEAR(costs_of({}).bytes_per_byte, whole, 1e-9);
  EXPECT_NEAR(costs_of({.compression = "fp16"}).bytes_per_byte, whole - 0.5, 1e-3);
  EXPECT_NEAR(costs_of({.compression = "int8"}).bytes_per_byte, whole - 0.75, 0.01);
  // The default optimizer is Adam, which keeps two numbers for each.
  EXPECT_NEAR(costs_of({.mode = "parameters", .optimizer = true}).bytes_per_byte, whole + 2, 1e-9);
  EXPECT_NEAR(costs_of({.mode = "parameters", .optimizer = true, .compression = "fp16"}).bytes_per_byte,
              whole + 1.5, 1e-3);
}

TEST(AveragingCosts, OfRoundsThatOverlapOnlyWhatIsLongerThanTheStepsBesideThemIsExposed) {
  const RoundRate waited{.waited = 0.25};
  EXPECT_DOUBLE_EQ(exposed_seconds(waited, {.whole = 8, .fragment = 8}, 100), 2);
  const RoundRate beside{.waited = 0.01, .overlapped = 0.1, .fragments = 4, .steps_beside = 2};
  EXPECT_DOUBLE_EQ(exposed_seconds(beside, {.whole = 8, .fragment = 3}, 1.5), 0.08);
  EXPECT_DOUBLE_EQ(exposed_seconds(beside, {.whole = 8, .fragment = 3}, 1), 0.08 + 0.4);
  EXPECT_DOUBLE_EQ(mean_seconds(beside, {.whole = 8, .fragment = 3}), (0.08 + 1.2) / 0.41);
  EXPECT_DOUBLE_EQ(mean_seconds(waited, {.whole = 8, .fragment = 8}), 8);
}

TEST(AveragingCosts, ARoundRunsBesideNoMoreStepsThanThereAreUntilTheNext) {
  const RoundRate often = costs_of({.mode = "diloco", .every = 8, .fragments = 4, .overlap = 5}).rate(2);
  EXPECT_EQ(often.fragments, 4);
  EXPECT_EQ(often.steps_beside, 2);
  EXPECT_EQ(costs_of({.mode = "parameters", .every = 8, .overlap = 5}).rate(2).steps_beside, 5);
  EXPECT_EQ(costs_of({.mode = "parameters", .every = 8}).rate(2).steps_beside, 0);
}

// The search and its bound rely on it.
RC_GTEST_PROP(AveragingCosts, ASlowerStepOrRoundNeverMakesAStepWithItsAveragingShorter, ()) {
  TrainingSettings settings;
  settings.averaging = {.mode = "diloco",
                        .every = *rc::gen::inRange(1, 40),
                        .fragments = *rc::gen::inRange(1, 9),
                        .overlap = *rc::gen::inRange(0, 50)};
  const RoundRate rate = RoundSchedule(settings, *rc::gen::inRange(1, 60), true).rate();
  const auto seconds = [] { return 1e-3 * *rc::gen::inRange(0, 10'000); };
  const double step = seconds();
  const RoundSeconds round{.whole = seconds(), .fragment = seconds()};
  const double longer_step = step + seconds();
  const RoundSeconds longer{round.whole + seconds(), round.fragment + seconds()};
  const double least = step + exposed_seconds(rate, round, step);
  RC_ASSERT(longer_step + exposed_seconds(rate, round, longer_step) >= least - 1e-9);
  RC_ASSERT(step + exposed_seconds(rate, longer, step) >= least - 1e-9);
}

}  // namespace
}  // namespace rookery
