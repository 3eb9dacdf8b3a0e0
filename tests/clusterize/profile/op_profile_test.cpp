#include "clusterize/profile/op_profile.hpp"

#include <gmock/gmock.h>

#include <set>

#include "clusterize/costs/model_costs.hpp"
#include "models/base/files/files.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "tests/support/repository.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/feed/split.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// `doing` gets what is measured, in words.
OpProfile profile_of(const TrainingTask& task, const std::set<int>& threads, std::int64_t memory,
                     std::vector<std::string>& doing) {
  const auto dataset = open_dataset("digits", kNodeData);
  const DataSizes data = data_sizes(*dataset, task.settings);
  return measure_profile({.graph = task.graph,
                          .settings = task.settings,
                          .dataset = *dataset,
                          .data = data,
                          .kernels = task.kernels,
                          .threads = threads,
                          .memory_bytes = memory,
                          .seconds = 0.02,
                          .doing = [&](const std::string& what) { doing.push_back(what); }});
}

// Made up: op number i takes i + 1 us in each part on one thread, and 40 % less on three, with which the
// machine is twice as fast.
OpProfile made_up(const TrainingTask& task) {
  OpProfile profile{.machine = "a machine",
                    .model = task.settings.model,
                    .micro_batch = 64,
                    .kernels = task.kernels,
                    .input_seconds = 1e-3};
  const std::vector<TensorType> types = task.graph.types(64);
  for (const int threads : {1, 3}) {
    ThreadTimes& times = profile.threads[threads];
    times.gflops = threads == 1 ? 50 : 100;
    times.update_seconds_per_byte = threads == 1 ? 1e-9 : 0.5e-9;
    double seconds = 0;
    for (const Op& op : task.graph.ops()) {
      seconds += threads == 1 ? 1e-6 : 0.6e-6;
      times.ops[op.name] = {.type = op.type,
                            .output = types[op.outputs[0]].to_string(),
                            .forward = seconds,
                            .backward_inputs = seconds,
                            .backward_weights = seconds};
    }
  }
  return profile;
}

double forward_sum(const OpProfile& profile, int threads = 1) {
  double sum = 0;
  for (const auto& [name, op] : profile.threads.at(threads).ops) sum += op.forward;
  return sum;
}

// Returns in how many pieces it was measured, counted anew for each number of threads.
std::ptrdiff_t check_every_part(const std::set<int>& threads, std::int64_t memory) {
  const TrainingTask task = cnn_task();
  std::vector<std::string> doing;
  const OpProfile profile = profile_of(task, threads, memory, doing);
  EXPECT_EQ(profile_problem(profile, task.graph, task.settings, task.kernels), "");
  EXPECT_GT(profile.input_seconds, 0);
  for (const int count : threads) {
    const ThreadTimes& times = profile.threads.at(count);
    EXPECT_GT(times.gflops, 0);
    EXPECT_GT(times.update_seconds_per_byte, 0);
    const OpSeconds& first = times.ops.at("conv2d_1");
    EXPECT_GT(first.forward, 0);
    EXPECT_GT(first.backward_inputs + first.backward_weights, 0);
    EXPECT_GT(times.ops.at("dense_1").forward, 0);
  }
  return std::ranges::count_if(
      doing, [](const std::string& what) { return what.find(" ops, ") != std::string::npos; });
}

TEST(OpProfile, MeasuresEveryPartOnEveryNumberOfThreads) {
  EXPECT_EQ(check_every_part({1, 2}, 1 << 30), 2);
}

TEST(OpProfile, MeasuresEveryPartOfEveryPieceWhereMemoryIsShort) {
  EXPECT_GT(check_every_part({1}, 250'700'000), 1);  // 0.7 MB more than the machine's speed takes
}

TEST(OpProfile, ComesBackAsItWas) {
  const ScratchFolder folder;
  const std::filesystem::path file = op_profile_path(folder.path());
  EXPECT_FALSE(read_profile(file));
  const TrainingTask task = cnn_task();
  const OpProfile written = made_up(task);
  write_profile(file, written);
  const OpProfile read = read_profile(file).value();
  EXPECT_EQ(profile_problem(read, task.graph, task.settings, task.kernels), "");
  EXPECT_EQ(read.machine, written.machine);
  EXPECT_EQ(read.input_seconds, written.input_seconds);
  ASSERT_EQ(read.threads.size(), 2U);
  for (const int threads : {1, 3}) {
    EXPECT_EQ(read.threads.at(threads).gflops, written.threads.at(threads).gflops);
    EXPECT_EQ(read.threads.at(threads).update_seconds_per_byte,
              written.threads.at(threads).update_seconds_per_byte);
    EXPECT_EQ(forward_sum(read, threads), forward_sum(written, threads));
  }
}

TEST(OpProfile, ADamagedFileIsRefusedByPlace) {
  const ScratchFolder folder;
  const std::filesystem::path file = op_profile_path(folder.path());
  const auto error_after = [&](const std::function<void(Json&)>& change) {
    write_profile(file, made_up(cnn_task()));
    Json document = read_json(file);
    change(document);
    write_file(file, document.dump());
    return error_of([&] { read_profile(file); });
  };
  EXPECT_THAT(error_after([](Json& d) { d["threads"]["1"]["ops"]["conv2d_1"]["forward"] = -1; }),
              HasSubstr("op_profile.json: threads/1/ops/conv2d_1/forward"));
  EXPECT_THAT(error_after([](Json& d) { d["threads"]["3"]["gflops"] = 0; }), HasSubstr("threads/3/gflops"));
  EXPECT_THAT(error_after([](Json& d) { d["threads"]["0"] = d["threads"]["1"]; }), HasSubstr("threads"));
  EXPECT_THAT(error_after([](Json& d) { d["threads"] = Json::object(); }), HasSubstr("threads"));
  EXPECT_THAT(error_after([](Json& d) { d["version"] = 3; }), HasSubstr("clusterize --profile"));
  EXPECT_THAT(error_after([](Json& d) { d["version"] = 1; }),
              AllOf(HasSubstr("measured one thread"), HasSubstr("clusterize --profile")));
  EXPECT_THAT(error_after([](Json& d) { d.erase("kernels"); }), HasSubstr("kernels"));
}

TEST(OpProfile, SaysWhyItDoesNotHold) {
  const TrainingTask task = cnn_task();
  const auto problem = [&](const std::function<void(OpProfile&)>& change) {
    OpProfile profile = made_up(task);
    change(profile);
    return profile_problem(profile, task.graph, task.settings, task.kernels);
  };
  EXPECT_EQ(problem([](OpProfile&) {}), "");
  EXPECT_EQ(problem([](OpProfile& p) { p.model = "vgg11"; }), "it was measured for vgg11, not for cnn_net");
  EXPECT_EQ(problem([](OpProfile& p) { p.micro_batch = 32; }),
            "it was measured for micro-batches of 32, not of 64");
  EXPECT_EQ(problem([](OpProfile& p) { p.threads[3].ops.erase("conv2d_1"); }),
            "it has no times of the op 'conv2d_1'");
  EXPECT_THAT(problem([](OpProfile& p) { p.threads[1].ops["conv2d_1"].output = "f32[1]"; }),
              HasSubstr("makes f32[1]"));
  EXPECT_EQ(problem([](OpProfile& p) { p.kernels.begin()->second = "other"; }),
            "it was measured with other kernels");
}

// What took t seconds on a machine of 50 GFLOP/s takes t / 2 where there are 100.
TEST(OpProfile, IsWhatPredictionsComeFrom) {
  TrainingTask task = cnn_task();
  task.profile = made_up(task);
  const double forward_ms = 1e3 * (forward_sum(*task.profile) + task.profile->input_seconds);
  Json pool = equal_nodes(1);
  const auto prediction = [&] {
    return make_plan(task, pool_of(pool), {}).plan.clusters[0].stages[0].prediction;
  };
  EXPECT_NEAR(prediction().forward_ms, forward_ms, 1e-9) << "a node without gflops is like this machine";
  pool["0"]["benchmarks"]["gflops"] = 100;
  EXPECT_NEAR(prediction().forward_ms, forward_ms / 2, 1e-9);
  double parameters = 0;
  for (const ValueId id : task.graph.parameters())
    parameters += static_cast<double>(task.graph.value(id).type.shape.elements());
  EXPECT_NEAR(prediction().update_ms, 1e3 * 4 * parameters * 1e-9 / 2, 1e-9);
}

// The times of its own number of threads, or the next that was measured.
TEST(OpProfile, ANodeTakesTheTimesOfItsThreads) {
  TrainingTask task = cnn_task();
  task.profile = made_up(task);
  const double input_ms = 1e3 * task.profile->input_seconds;
  Json pool = equal_nodes(1);
  const auto forward_ms = [&](int threads) {
    pool["0"]["threads"] = threads;
    return make_plan(task, pool_of(pool), {}).plan.clusters[0].stages[0].prediction.forward_ms;
  };
  const double on_one = 1e3 * forward_sum(*task.profile, 1) + input_ms;
  const double on_three = 1e3 * forward_sum(*task.profile, 3) + input_ms;
  EXPECT_NEAR(forward_ms(1), on_one, 1e-9);
  EXPECT_NEAR(forward_ms(2), on_one, 1e-9);
  EXPECT_NEAR(forward_ms(3), on_three, 1e-9);
  EXPECT_NEAR(forward_ms(8), on_three, 1e-9);
  pool["0"]["benchmarks"]["gflops"] = 200;  // with its threads
  EXPECT_NEAR(forward_ms(3), on_three / 2, 1e-9);
}

}  // namespace
}  // namespace rookery
