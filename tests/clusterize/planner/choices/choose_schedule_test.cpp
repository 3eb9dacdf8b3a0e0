#include "clusterize/planner/choices/choose_schedule.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "clusterize/report/report.hpp"
#include "models/base/check.hpp"
#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TrainingSettings asking(std::optional<int> micro_batches, const std::string& schedule,
                        std::int64_t batch_size = 64) {
  TrainingSettings settings;
  settings.batch_size = batch_size;
  settings.micro_batches = micro_batches;
  settings.schedule.name = schedule;
  return settings;
}

TrainingTask undecided_task(const TrainingSettings& asked) {
  TrainingSettings one = asked;
  one.micro_batches = 1;
  TrainingTask task = cnn_task(one);
  task.settings = asked;
  return task;
}

TrainingTask deep_task(const TrainingSettings& asked) {
  TrainingTask task{.graph = zoo_model("deep_mlp"), .settings = asked, .data = {1078, 719}};
  add_loss(task.graph, asked.loss);
  task.kernels = choose_kernels(task.graph, asked.batch_size / *asked.micro_batches);
  return task;
}

Json pool_with(int nodes, double gflops, double latency_ms, double mbps, double ram = 8) {
  Json pool = equal_nodes(nodes, ram);
  for (Json& node : pool) node["benchmarks"].update({{"bandwidth", mbps}, {"gflops", gflops}});
  pool["network"] = {{"default", {{"latency_ms", latency_ms}, {"bandwidth_mbps", mbps}}}};
  return pool;
}

SearchOptions one_cluster_of(int nodes) {
  return {.objective = Objective::kThroughput, .min_nodes = nodes, .clusters = 1};
}

// Three machines with long ways between them, and such with short ones; of half a GFLOP/s.
const Json kFar = pool_with(3, 0.5, 20, 1000);
const Json kNear = pool_with(3, 0.5, 0.001, 100'000);

struct Chosen {
  TrainingTask task;
  ScheduleChoice choice;
  Planned planned;
};

Chosen chosen(const TrainingSettings& asked, const Json& pool, const SearchOptions& options) {
  Chosen made{.task = undecided_task(asked), .choice = {}, .planned = {}};
  made.choice = choose_schedule(made.task, pool_of(pool), options).value();
  made.planned = make_plan(made.task, pool_of(pool), options);
  return made;
}

// Of what was not chosen.
double step_of(const std::string& schedule, const ScheduleChoice& choice) {
  const auto found = std::ranges::find(choice.others, schedule, &ScheduleCandidate::schedule);
  ROOKERY_CHECK(found != choice.others.end(), "{} was not tried", schedule);
  return found->step_ms;
}

double rate_of(const TrainingSettings& asked, const Json& pool, const SearchOptions& options) {
  return make_plan(cnn_task(asked), pool_of(pool), options).plan.simulated_samples_per_second;
}

TEST(PossibleMicroBatches, AreAboutPowersOfTwo) {
  const auto possible = [](std::int64_t batch_size) {
    return possible_micro_batches(asking({}, "1f1b", batch_size), zoo_model("mnist_mlp"));
  };
  EXPECT_THAT(possible(1), ElementsAre(1));
  EXPECT_THAT(possible(64), ElementsAre(1, 2, 4, 8, 16, 32, 64));
  EXPECT_THAT(possible(100), ElementsAre(1, 2, 4, 10, 20, 25, 50));
  EXPECT_THAT(possible(7), ElementsAre(1, 2, 4));                  // of 7; 4, 3; 2, 2, 2, 1
  EXPECT_THAT(possible(97), ElementsAre(1, 2, 4, 8, 14, 25, 49));  // 7 each of 14, and 6
  EXPECT_EQ(possible(1 << 20).back(), kMostMicroBatches);
}

TEST(PossibleMicroBatches, HaveEnoughSamplesForStatistics) {
  Graph graph = zoo_model("resnet18?image_size=32&classes=10");
  EXPECT_THAT(possible_micro_batches(asking({}, "1f1b", 64), graph), ElementsAre(1, 2, 4));
  EXPECT_THAT(possible_micro_batches(asking({}, "1f1b", 8), graph), ElementsAre(1));
}

TEST(PossibleMicroBatches, OfAnAsynchronousBatchAreTheUsersToAskFor) {
  EXPECT_THAT(possible_micro_batches(asking({}, "async"), cnn_task().graph), ElementsAre(1));
}

TEST(ChooseSchedule, ManyMicroBatchesFillALongWay) {
  const Chosen far = chosen(asking({}, "1f1b", 512), kFar, one_cluster_of(3));
  EXPECT_GE(*far.task.settings.micro_batches, 8);
  EXPECT_EQ(far.task.settings.schedule.name, "1f1b");
  EXPECT_GT(far.choice.chosen.samples_per_second,
            1.5 * rate_of(asking(1, "1f1b", 512), kFar, one_cluster_of(3)));
}

TEST(ChooseSchedule, OneMicroBatchWhereMoreBringNothing) {
  const Chosen alone = chosen(asking({}, "auto"), pool_with(1, 0.5, 0, 1000), one_cluster_of(1));
  EXPECT_EQ(alone.task.settings.micro_batches, 1);
  EXPECT_EQ(alone.task.settings.schedule.name, "1f1b");
  // Machines that do nothing sooner than begin an op.
  const Chosen quick = chosen(asking({}, "1f1b", 8), pool_with(2, 0.5, 0.001, 100'000), one_cluster_of(2));
  EXPECT_LE(*quick.task.settings.micro_batches, 4);
}

TEST(ChooseSchedule, ZbWhereItsStepIsShorter) {
  const SearchOptions options = one_cluster_of(3);
  const Chosen near = chosen(asking(4, "auto"), kNear, options);
  EXPECT_EQ(near.task.settings.schedule.name, "zb");
  EXPECT_EQ(near.task.settings.micro_batches, 4);
  EXPECT_LT(near.choice.chosen.step_ms, step_of("1f1b", near.choice));
  // One micro-batch has nothing to put off.
  const ScheduleChoice one = chosen(asking(1, "auto"), kNear, options).choice;
  EXPECT_THAT(one.chosen.schedule, testing::AnyOf("1f1b", "interleaved"));
}

// Of layers that are alike each machine has as much to do with one stage as with two.
TEST(ChooseSchedule, SeveralStagesOnAMachineWhereThatIsFaster) {
  TrainingTask task = deep_task(asking(4, "auto"));
  const SearchOptions options = one_cluster_of(4);
  const ScheduleChoice near =
      choose_schedule(task, pool_of(pool_with(4, 0.5, 0.001, 100'000)), options).value();
  EXPECT_EQ(near.chosen.schedule, "zbv");
  EXPECT_LT(near.chosen.step_ms, 0.98 * step_of("zb", near));
  EXPECT_LT(step_of("interleaved", near), 0.98 * step_of("1f1b", near));
  EXPECT_EQ(
      make_plan(task, pool_of(pool_with(4, 0.5, 0.001, 100'000)), options).plan.clusters[0].stages.size(),
      8U);
  // Where links are slow, what is sent twice as often costs more than waiting.
  TrainingTask far = deep_task(asking(4, "auto"));
  const ScheduleChoice slow = choose_schedule(far, pool_of(pool_with(4, 0.5, 1, 20)), options).value();
  EXPECT_THAT(slow.chosen.schedule, testing::AnyOf("1f1b", "zb"));
}

// However much there is to look at, as good as the best of all that is possible.
TEST(ChooseSchedule, IsHardlySlowerThanAnyOther) {
  const Json uneven = [] {
    Json pool = pool_with(4, 0.2, 2, 200);
    pool["1"]["benchmarks"]["gflops"] = 1;
    pool["3"]["benchmarks"]["gflops"] = 0.6;
    return pool;
  }();
  for (const Json& pool : {kFar, kNear, uneven}) {
    SearchOptions options{.objective = Objective::kThroughput, .min_nodes = 1};
    const ScheduleCandidate best = chosen(asking({}, "auto", 128), pool, options).choice.chosen;
    for (const int number : possible_micro_batches(asking({}, "auto", 128), cnn_task().graph)) {
      for (const char* const schedule : {"1f1b", "zb", "interleaved", "zbv"})
        EXPECT_LE(rate_of(asking(number, schedule, 128), pool, options), best.samples_per_second / 0.985)
            << number << " " << schedule << " and not " << best.micro_batches << " " << best.schedule;
    }
  }
}

TEST(ChooseSchedule, IsWithinMemory) {
  const SearchOptions options = one_cluster_of(3);
  const Chosen roomy = chosen(asking({}, "1f1b", 1024), kNear, options);
  std::int64_t most = 0;
  TrainingSettings finer = roomy.task.settings;
  finer.micro_batches = 8 * *finer.micro_batches;
  const Planned finely = make_plan(cnn_task(finer), pool_of(kNear), options);
  for (const PlannedStage& stage : finely.plan.clusters[0].stages)
    most = std::max(most, stage.prediction.total_bytes());
  const double ram = static_cast<double>(most) / 1e9;
  const Chosen tight = chosen(asking({}, "1f1b", 1024), pool_with(3, 0.5, 0.001, 100'000, ram), options);
  EXPECT_GT(*tight.task.settings.micro_batches, *roomy.task.settings.micro_batches);
  EXPECT_GT(tight.choice.too_large, 0);
  for (const PlannedStage& stage : tight.planned.plan.clusters[0].stages)
    EXPECT_LE(static_cast<double>(stage.prediction.total_bytes()), 1e9 * ram);
  EXPECT_THAT(error_of([&] {
                TrainingTask task = undecided_task(asking({}, "auto", 2));
                choose_schedule(task, pool_of(pool_with(3, 0.5, 0.001, 100'000, 1e-4)), options);
              }),
              HasSubstr("more or larger machines are needed"));
}

TEST(ChooseSchedule, IsTheSameEachTimeAndAsWrittenByHand) {
  const Chosen one = chosen(asking({}, "auto"), kNear, one_cluster_of(3));
  const Chosen other = chosen(asking({}, "auto"), kNear, one_cluster_of(3));
  EXPECT_EQ(one.planned.plan.plan_id, other.planned.plan.plan_id);
  EXPECT_EQ(one.choice.tried, other.choice.tried);
  const TrainingTask by_hand = cnn_task(asking(one.choice.chosen.micro_batches, one.choice.chosen.schedule));
  EXPECT_EQ(by_hand.settings, one.task.settings);
  EXPECT_EQ(by_hand.kernels, one.task.kernels);
  const Planned planned = make_plan(by_hand, pool_of(kNear), one_cluster_of(3));
  EXPECT_EQ(planned.plan.plan_id, one.planned.plan.plan_id);
  EXPECT_DOUBLE_EQ(planned.plan.simulated_samples_per_second, one.choice.chosen.samples_per_second);
}

TEST(ChooseSchedule, AsTheAveragingIs) {
  TrainingSettings asked = asking({}, "auto");
  asked.averaging.mode = "auto";
  TrainingTask task = undecided_task(asked);
  ASSERT_TRUE(choose_schedule(task, pool_of(kNear), {.objective = Objective::kThroughput, .min_nodes = 1}));
  EXPECT_THAT(undecided(task.settings), ElementsAre("averaging/mode"));
}

TEST(ChooseSchedule, NothingWhereBothAreGiven) {
  TrainingTask task = cnn_task();
  EXPECT_FALSE(choose_schedule(task, pool_of(kNear), {}));
  EXPECT_EQ(task.settings, TrainingSettings());
}

TEST(ChooseSchedule, IsToldWithWhatWasNotChosen) {
  Chosen near = chosen(asking(4, "auto"), kNear, one_cluster_of(3));
  near.planned.plan.schedule_choice = near.choice;
  EXPECT_THAT(describe_plan(near.task, near.planned),
              AllOf(HasSubstr("Chosen: \"micro_batches\": 4, \"schedule\": \"zb\": "),
                    HasSubstr("\n  instead of \"micro_batches\": 4, \"schedule\": \"1f1b\": "),
                    HasSubstr("\n  of 4 that were tried\n")));
  const OrderedJson document = to_json(near.planned.plan);
  EXPECT_EQ(document.at("schedule"), "zb");
  EXPECT_EQ(document.at("schedule_choice").at("chosen").at("micro_batches"), 4);
  EXPECT_EQ(document.at("schedule_choice").at("others").at(0).at("schedule"),
            near.choice.others.at(0).schedule);
}

TEST(ChooseSchedule, NoPlanIsMadeOfWhatIsNotDecided) {
  TrainingTask task = cnn_task();
  task.settings.schedule.name = kAutoSchedule;
  EXPECT_THAT(error_of([&] { make_plan(task, pool_of(kNear), {}); }), HasSubstr("schedule: \"auto\""));
  task.settings = asking({}, "1f1b");
  EXPECT_THROW(make_plan(task, pool_of(kNear), {}), BugError);
}

}  // namespace
}  // namespace rookery
