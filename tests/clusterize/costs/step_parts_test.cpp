// The predicted step of machines with several stages (trainer/schedule/machine_order.hpp), beside the
// simulated one.
#include "clusterize/costs/step_parts.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "clusterize/simulation/simulation.hpp"
#include "models/base/rng.hpp"
#include "models/graph/ops/builder.hpp"
#include "tests/clusterize/chain_model.hpp"
#include "trainer/schedule/machine_order.hpp"

namespace rookery {
namespace {

struct ChainLinks {
  double latency_ms = 0;
  double mbps = 1e5;
};

// A cluster whose stages have a segment each: F, B and W of 10 ms, unless they are made to differ.
class ChunksOfChain {
  StagePlacement placement_;
  Json document_;
  ModelCosts costs_;
  std::vector<int> members_;

  template <typename Action>
  auto with_model(const Action& action) const {
    const std::vector<double> ram(static_cast<std::size_t>(placement_.chunks), 100);
    const NodePool pool = pool_of(document_).divided(
        std::vector<std::vector<double>>(static_cast<std::size_t>(placement_.machines), ram));
    const ThroughputModel model(pool, costs_);
    std::vector<int> begins(members_.size());
    std::iota(begins.begin(), begins.end(), 0);
    return action(model, *model.cut(members_, begins));
  }

 public:
  ChunksOfChain(const ScheduleSettings& schedule, int machines, int micro_batches,
                const ChainLinks& links = {})
      : placement_(placement_on(schedule, machines)),
        document_(fast_pool(machines, links.latency_ms, links.mbps)),
        costs_(chain(placement_.stages())) {
    costs_.schedule = schedule;
    costs_.micro_batches = micro_batches;
    for (int stage = 0; stage < placement_.stages(); ++stage)
      members_.push_back(placement_.machine_of(stage) * placement_.chunks + placement_.chunk_of(stage));
  }

  ChunksOfChain& wait_for_norm() {
    costs_.waits_for_norm = true;
    return *this;
  }

  void differ(CounterRng& rng) {
    const auto drawn = [&rng](double least, double most) {  // evenly in their logarithms
      return least * std::pow(most / least, static_cast<double>(rng.next_float()));
    };
    for (int machine = 0; machine < placement_.machines; ++machine)
      document_[std::to_string(machine)]["benchmarks"]["gflops"] = drawn(50, 200);
    for (Segment& segment : costs_.segments) {
      segment.work = {.forward_flops = drawn(3e8, 3e9),
                      .backward_flops = drawn(3e8, 9e9),
                      .update_flops = drawn(1e6, 1e8)};
    }
  }

  StepParts parts() const {
    return with_model([&](const ThroughputModel& model, const StagePartition& cut) {
      return step_parts(model, members_, cut, costs_.schedule);
    });
  }

  double simulated() const {
    const PipelineModel pipeline = with_model(
        [&](const ThroughputModel& model, const StagePartition& cut) { return pipeline_of(model, cut); });
    const std::vector<std::int64_t> sizes(static_cast<std::size_t>(costs_.micro_batches), 1);
    const std::size_t fill = (pipeline.stages.size() + sizes.size() - 1) / sizes.size();
    const int batches = steps_overlap(pipeline) ? static_cast<int>(2 * fill) + 5 : 1;
    return full_span(simulate_step(training_program(pipeline, sizes, batches)), fill).step_seconds();
  }

 private:
  // What its stages send is next to nothing.
  PipelineModel pipeline_of(const ThroughputModel& model, const StagePartition& cut) const {
    GraphBuilder builder;
    ValueId x = builder.input("input", {1});
    for (int stage = 0; stage < placement_.stages(); ++stage)
      x = builder.linear(fmt::format("layer_{}", stage), x, 1);
    Graph graph = builder.finish(x);
    add_loss(graph, "mse");
    std::vector<OpId> begins;
    for (std::size_t op = 0; op < graph.ops().size(); ++op)
      if (graph.ops()[op].type == "Gemm") begins.push_back(static_cast<OpId>(op));
    PipelineModel pipeline{.schedule = costs_.schedule,
                           .stages = rookery::cut(graph, begins),
                           .clips_gradients = costs_.waits_for_norm};
    const std::vector<StageTimes> times = model.stage_times(members_, cut);
    for (std::size_t stage = 0; stage < members_.size(); ++stage) {
      pipeline.work.push_back(
          {.forward = times[stage].forward,
           .backward = times[stage].backward,
           .update = times[stage].update,
           .bytes_per_second = model.machine(members_[stage], members_.size()).bytes_per_second});
      std::vector<FlowWay>& links = pipeline.links.emplace_back();
      for (std::size_t to = 0; to < members_.size(); ++to) {
        if (to == stage) {
          links.push_back({});
          continue;
        }
        const CutWay way = model.way(members_[stage], members_[to]);
        links.push_back({.latency = way.latency, .bytes_per_second = way.bytes_per_second});
      }
    }
    return pipeline;
  }
};

// With the number of its machines and of its micro-batches.
struct RandomChunks {
  ChunksOfChain cluster;
  int machines = 0;
  int micro_batches = 0;
};

RandomChunks random_chunks(std::uint64_t seed, const ChainLinks& links) {
  static const std::vector<ScheduleSettings> schedules{
      {.name = "interleaved"}, {.name = "interleaved", .chunks = 3}, {.name = "zbv"}};
  CounterRng rng(rng_key(seed, "step_parts_test"), 0);
  const ScheduleSettings& schedule = schedules[rng.next_below(3)];
  const int machines = 2 + static_cast<int>(rng.next_below(4));
  const int micro_batches = 2 + static_cast<int>(rng.next_below(15));
  RandomChunks made{ChunksOfChain(schedule, machines, micro_batches, links), machines, micro_batches};
  if (rng.next_below(2) == 0) made.cluster.wait_for_norm();
  made.cluster.differ(rng);
  return made;
}

TEST(StepOfChunks, InterleavedIsFilledByAStagesPart) {
  for (const int chunks : {2, 3, 4}) {
    for (const int machines : {2, 3, 4}) {
      for (const int groups : {1, 2, 4}) {
        const int micro_batches = groups * machines;
        const StepParts parts =
            ChunksOfChain({.name = "interleaved", .chunks = chunks}, machines, micro_batches).parts();
        EXPECT_NEAR(parts.step - parts.update, micro_batches * chunks * 0.03 + (machines - 1) * 0.02, 1e-4)
            << chunks << " chunks, " << machines << " machines, " << micro_batches;
      }
    }
  }
}

// What a machine passes to itself is on its way, too.
// What a machine passes to itself is on its way, too.
TEST(StepOfChunks, ZbvIsFullButWhereStepsWaitForEachOther) {
  for (const int machines : {2, 3, 4, 6}) {
    for (const int more : {0, 1, 5}) {
      const int micro_batches = 2 * machines - 1 + more;
      ChunksOfChain cluster({.name = "zbv"}, machines, micro_batches);
      const StepParts parts = cluster.parts();
      EXPECT_NEAR(parts.step - parts.update, micro_batches * 0.06, 2e-3) << machines << " machines";
      const StepParts waiting = cluster.wait_for_norm().parts();
      EXPECT_NEAR(waiting.step - waiting.update, micro_batches * 0.06 + (machines - 1) * 0.01, 2e-3);
    }
  }
}

// With fewer micro-batches than machines a step counts as long as a round trip, to which W belong for which
// nobody waits.
TEST(StepOfChunks, IsAsTheScheduleTakesWhereLinksAreFast) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const auto [cluster, machines, micro_batches] = random_chunks(seed, {.latency_ms = 1e-3, .mbps = 1e5});
    const double predicted = cluster.parts().step;
    const double simulated = cluster.simulated();
    EXPECT_GE(predicted, 0.98 * simulated) << seed;
    if (micro_batches >= machines) {
      EXPECT_LE(predicted, 1.1 * simulated) << seed;
    }
  }
}

TEST(StepOfChunks, IsNoLessThanWhatItsBusiestPartDoesWhereLinksAreSlow) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (const ChainLinks& links :
         {ChainLinks{.latency_ms = 0.1, .mbps = 1}, ChainLinks{.latency_ms = 100, .mbps = 10}}) {
      const auto [cluster, machines, micro_batches] = random_chunks(seed, links);
      const StepParts parts = cluster.parts();
      EXPECT_GE(parts.step, (1 - 1e-9) * micro_batches * parts.busiest) << seed;
      EXPECT_GE(parts.step, parts.round_trip) << seed;
    }
  }
}

}  // namespace
}  // namespace rookery
