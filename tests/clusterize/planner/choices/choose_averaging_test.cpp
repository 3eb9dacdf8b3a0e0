#include "clusterize/planner/choices/choose_averaging.hpp"

#include <gmock/gmock.h>

#include "clusterize/planner/make_metadata.hpp"
#include "clusterize/report/averaging_text.hpp"
#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const SearchOptions kAlone{.objective = Objective::kThroughput, .min_nodes = 1};

// Of machines so slow that a step takes some ten milliseconds.
Json pool_with(int nodes, double latency_ms, double mbps) {
  Json pool = equal_nodes(nodes);
  for (Json& node : pool) node["benchmarks"].update({{"bandwidth", mbps}, {"gflops", 1}});
  pool["network"] = {{"default", {{"latency_ms", latency_ms}, {"bandwidth_mbps", mbps}}}};
  return pool;
}

class ChooseAveraging : public testing::Test {
 protected:
  ChooseAveraging() {
    task_.settings.averaging = {.mode = "auto"};
    task_.settings.validate_every = 0;
    task_.data.train_samples = 64'000;
  }

  Planned planned(const Json& pool, const SearchOptions& options = kAlone) {
    return plan_with_averaging(task_, pool_of(pool), options);
  }

  TrainingTask task_ = cnn_task();
};

TEST_F(ChooseAveraging, GradientsWhereThatTakesLittle) {
  const Planned found = planned(pool_with(3, 0.001, 10'000));
  EXPECT_EQ(found.plan.clusters.size(), 3U);
  EXPECT_EQ(task_.settings.averaging, AveragingSettings());
  EXPECT_EQ(found.plan.averaging, AveragingSettings());
  ASSERT_TRUE(found.plan.averaging_choice);
  EXPECT_FALSE(found.plan.averaging_choice->parameters);
}

TEST_F(ChooseAveraging, ParametersAsOftenAsTakesATenthOfTheTimeWhereGradientsWouldTakeLongerThanTraining) {
  const Json pool = pool_with(3, 20, 100);
  const Planned found = planned(pool);
  const ClusterPlan& plan = found.plan;
  ASSERT_EQ(plan.clusters.size(), 3U);
  ASSERT_TRUE(plan.averaging_choice && plan.averaging_choice->parameters);
  const AveragingSettings chosen = task_.settings.averaging;
  EXPECT_EQ(chosen.mode, "parameters");
  ASSERT_TRUE(chosen.every);
  EXPECT_EQ(plan.averaging, chosen);
  const double step = plan.averaging_choice->parameters->step_ms;
  const double waits = plan.predicted_averaging_ms;
  EXPECT_LE(waits, 0.1 * (step + waits) * (1 + 1e-9));
  // A step less from round to round would take more than a tenth.
  const double oftener = waits * static_cast<double>(*chosen.every) / static_cast<double>(*chosen.every - 1);
  EXPECT_GT(oftener, 0.1 * (step + oftener));
  EXPECT_GT(plan.predicted_samples_per_second, 2 * plan.averaging_choice->gradients.samples_per_second);
  // Everything that providers and the plan's readers are told.
  EXPECT_EQ(make_metadata(task_, found, 1, 0).settings.averaging, chosen);
  EXPECT_EQ(to_json(plan).at("averaging").at("every"), *chosen.every);
  EXPECT_EQ(to_json(plan).at("averaging_choice").at("parameters").at("clusters"), 3);
  EXPECT_THAT(
      describe_averaging(plan),
      AllOf(HasSubstr(fmt::format("Averages parameters every {} steps: a round takes", *chosen.every)),
            HasSubstr("Chosen, because: gradients of every step: ")));
  // The plan is that of a task which asks for just that.
  const Planned asked = make_plan(task_, pool_of(pool), kAlone);
  EXPECT_EQ(asked.plan.plan_id, plan.plan_id);
}

TEST_F(ChooseAveraging, NoLessOftenThanOnceAnEpoch) {
  task_.data.train_samples = 6 * 64 * 4;
  const Planned found = planned(pool_with(6, 10, 100));
  ASSERT_EQ(found.plan.clusters.size(), 6U);
  EXPECT_EQ(task_.settings.averaging.mode, "parameters");
  EXPECT_EQ(task_.settings.averaging.every, 4);
}

TEST_F(ChooseAveraging, NothingForOneCluster) {
  task_.settings.averaging.compression = "int8";
  const Planned one = planned(equal_nodes(1));
  EXPECT_FALSE(one.plan.averaging_choice);
  EXPECT_EQ(task_.settings.averaging, (AveragingSettings{.compression = "int8"}));
  task_.settings.averaging = {.mode = "auto"};
  SearchOptions single = kAlone;
  single.clusters = 1;
  EXPECT_FALSE(planned(pool_with(3, 0.001, 10'000), single).plan.averaging_choice);
  EXPECT_EQ(task_.settings.averaging.mode, "gradients");
  EXPECT_EQ(describe_averaging(one.plan), "");
}

TEST(AveragingText, SaysHowOftenAndHow) {
  EXPECT_EQ(averaging_text({}), "gradients of every step");
  EXPECT_EQ(averaging_text({.compression = "fp16"}), "gradients of every step as fp16");
  EXPECT_EQ(averaging_text({.mode = "parameters", .every = 16, .optimizer = true}),
            "parameters and the optimizer's state every 16 steps");
  EXPECT_EQ(averaging_text({.mode = "parameters"}), "parameters every epoch");
  EXPECT_EQ(averaging_text({.mode = "diloco", .every = 64, .fragments = 4, .compression = "int8"}),
            "parameters by diloco every 64 steps in 4 fragments as int8, beside the next step");
  EXPECT_EQ(averaging_text({.mode = "parameters", .every = 1, .overlap = 3}),
            "parameters every step, beside the next 3 steps");
}

}  // namespace
}  // namespace rookery
