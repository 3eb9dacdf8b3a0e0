// How long a batch takes by each schedule, where stages wait instead of computing: against the schedule's
// formula and against the simulator, which plans go by.
//
//   schedule_times [--machines N] [--chunks N] [--micro-batches N] [--ms T] [--mbps B] [--latency-ms L]
//                  [--seconds S] [--clip]
//
// Everything else is real: each stage is a thread with its Executable, its StageWorker and an endpoint of its
// own, so that messages go through sockets. Forward, and each of the two backward phases, waits T
// milliseconds on a machine, divided among its stages where it has several, which take turns; waits take no
// processor, so that two of them stand for any number of machines. With --mbps and --latency-ms every machine
// sends as slowly to others (slow_network.hpp). The first stage, which sends no
// gradients, has both phases in one.
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "clusterize/costs/step_parts.hpp"
#include "clusterize/simulation/simulation.hpp"
#include "models/base/check.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/program.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/kernels/choose.hpp"
#include "node/transport/endpoint.hpp"
#include "trainer/schedule/compute_turn.hpp"
#include "trainer/schedule/machine_order.hpp"
#include "trainer/stage_worker.hpp"

namespace rookery {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::int64_t kSamples = 128;  // of a micro-batch
constexpr std::int64_t kWidth = 64;     // of a layer: 32 KiB from stage to stage and back

constexpr double kFast = 1e9;  // bytes a second within this machine

struct Case {
  int machines = 8;
  int chunks = 2;  // of interleaved
  int micro_batches = 32;
  double seconds = 0.04;  // of a machine's forward, and of each backward phase
  NetworkLimits limits;
  double measured_seconds = 5;  // by each schedule
  bool clips = false;           // gradients, by the norm of all stages'
  double bytes_per_second() const { return limits.mbps ? 125'000 * *limits.mbps : kFast; }
  double latency() const { return Seconds(limits.latency).count(); }
};

// Waits where a kernel would compute, by so much less as this machine wakes late.
class WaitingKernel final : public Kernel {
 public:
  explicit WaitingKernel(double seconds) : seconds_(seconds) {}
  void run(std::span<const ConstTensorView> /*inputs*/, std::span<const TensorView> /*outputs*/,
           std::byte* /*scratch*/, const StepContext& /*context*/) override {
    if (seconds_ > 0) std::this_thread::sleep_for(Seconds(seconds_ - late()));
  }

  // The median of what a sleep of a millisecond takes too long.
  static double late() {
    static const double seconds = [] {
      std::vector<double> all;
      for (int i = 0; i < 101; ++i) {
        const auto begin = Clock::now();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        all.push_back(Seconds(Clock::now() - begin).count() - 1e-3);
      }
      std::ranges::nth_element(all, all.begin() + 50);
      return all[50];
    }();
    return seconds;
  }

 private:
  const double seconds_;
};

class WaitingProcessor final : public Processor {
 public:
  explicit WaitingProcessor(double seconds) : seconds_(seconds) {}
  Device* device() const override { return host_processor().device(); }
  const Arithmetic& arithmetic() const override { return host_processor().arithmetic(); }
  std::unique_ptr<Kernel> describe_kernel(const std::string& /*choice*/,
                                          const KernelRequest& request) const override {
    const std::string& type = request.op.type;
    const bool is_first = request.op.text("forward", "") == "dense_0";
    if (type == "GemmGradWeight") return std::make_unique<WaitingKernel>((is_first ? 2 : 1) * seconds_);
    return std::make_unique<WaitingKernel>(type == "Gemm" || type == "GemmGradInput" ? seconds_ : 0);
  }

 private:
  const double seconds_;
};

Graph chain(int stages) {
  GraphBuilder builder;
  ValueId x = builder.input("input", {kWidth});
  for (int k = 0; k < stages; ++k) x = builder.linear(fmt::format("dense_{}", k), x, kWidth);
  Graph graph = builder.finish(x);
  add_loss(graph, "mse");
  return graph;
}

// A stage a layer.
std::vector<Stage> stages_of(const Graph& graph) {
  std::vector<OpId> begins;
  for (std::size_t op = 0; op < graph.ops().size(); ++op)
    if (graph.ops()[op].type == "Gemm") begins.push_back(static_cast<OpId>(op));
  return cut(graph, begins);
}

int micro_batches_of(const Case& of, const ScheduleSettings& schedule) {
  return is_synchronous(schedule) ? of.micro_batches : 1;
}

CompileOptions options_of(const Case& of, const ScheduleSettings& schedule, const Stage& stage,
                          const KernelChoice& kernels, const Processor& processor) {
  const int micro_batches = micro_batches_of(of, schedule);
  CompileOptions options;
  options.training_sizes = {kSamples};
  options.slots = slots(schedule, stage.index, stage.count, micro_batches);
  options.stashes_weights = !is_synchronous(schedule);
  options.updates_ahead = schedule.updates_ahead && !stage.is_leaf();
  options.micro_batches = micro_batches;
  options.delays_weights = delays_weights(schedule, stage.index, stage.count, micro_batches);
  options.optimizer.name = "sgd";
  options.kernels = kernels;
  options.processor = &processor;
  return options;
}

// What a phase of one stage takes.
double seconds_of_stage(const Case& of, const StagePlacement& placement) {
  return of.seconds / placement.chunks;
}

// The cluster as the simulator sees it.
PipelineModel model_of(const Case& of, const ScheduleSettings& schedule, const std::vector<Stage>& stages) {
  PipelineModel model{.schedule = schedule, .stages = stages, .micro_batch = kSamples};
  model.clips_gradients = of.clips;
  const StagePlacement placement = placement_on(schedule, of.machines);
  const double seconds = seconds_of_stage(of, placement);
  for (int k = 0; k < placement.stages(); ++k) {
    model.work.push_back(
        {.forward = seconds, .backward = 2 * seconds, .bytes_per_second = of.bytes_per_second()});
    std::vector<FlowWay>& links = model.links.emplace_back();
    for (int to = 0; to < placement.stages(); ++to) {
      const bool is_own = placement.machine_of(k) == placement.machine_of(to);
      links.push_back({k, to, is_own ? 0 : of.latency(), is_own ? kFast : of.bytes_per_second()});
    }
  }
  return model;
}

double simulated(const Case& of, const ScheduleSettings& schedule, const std::vector<Stage>& stages) {
  const PipelineModel model = model_of(of, schedule, stages);
  const std::vector<std::int64_t> sizes(static_cast<std::size_t>(micro_batches_of(of, schedule)), kSamples);
  const auto batches = static_cast<int>(batches_to_simulate(model, sizes.size()));
  return full_span(simulate_step(training_program(model, sizes, batches)),
                   batches_to_fill(model, sizes.size()))
      .step_seconds();
}

// As a plan does: the order of which a batch is shortest, or what a round trip needs.
std::vector<int> in_flight_of_fastest_order(const Case& of, ScheduleSettings schedule,
                                            const std::vector<Stage>& stages) {
  std::vector<int> fastest;
  double shortest = std::numeric_limits<double>::infinity();
  for (std::vector<int>& each :
       possible_in_flight(schedule, static_cast<int>(stages.size()), micro_batches_of(of, schedule))) {
    schedule.planned = each;
    const double seconds = simulated(of, schedule, stages);
    if (seconds > 0.98 * shortest) continue;
    shortest = seconds;
    fastest = std::move(each);
  }
  return fastest;
}

ScheduleSettings with_enough_in_flight(const Case& of, ScheduleSettings schedule,
                                       const std::vector<Stage>& of_cluster) {
  if (!is_synchronous(schedule)) schedule.max_staleness = 1000;
  schedule.updates_ahead = of.clips && delays_weights(schedule);
  if (has_chunks(schedule)) {
    schedule.planned = in_flight_of_fastest_order(of, schedule, of_cluster);
    return schedule;
  }
  const double there = static_cast<double>(kSamples * kWidth * 4) / of.bytes_per_second();
  StepParts parts{.busiest = std::max(3 * of.seconds, 2 * there)};
  const auto stages = static_cast<std::size_t>(placement_on(schedule, of.machines).stages());
  parts.work.assign(stages, 3 * of.seconds);
  parts.updates.assign(stages, 0);
  parts.transfers.assign(stages, 2 * (of.latency() + there));
  schedule.planned =
      needed_in_flight(parts, schedule, micro_batches_of(of, schedule), of.limits.any() ? 1.5 : 1);
  return schedule;
}

// Median seconds from one update of the first stage to the next, in the middle of the run.
double measured(const Case& of, const ScheduleSettings& schedule, const std::vector<Stage>& stages,
                const KernelChoice& kernels, double expected) {
  const StagePlacement placement = placement_on(schedule, of.machines);
  const WaitingProcessor processor(seconds_of_stage(of, placement));
  const auto batches = std::max<std::int64_t>(5, std::llround(of.measured_seconds / expected)) +
                       (is_synchronous(schedule) ? 0 : 6 * of.machines);
  std::vector<std::unique_ptr<ComputeTurn>> turns;  // by machine
  for (int machine = 0; machine < of.machines && placement.chunks > 1; ++machine)
    turns.push_back(std::make_unique<ComputeTurn>(schedule, machine, placement.stages()));
  std::vector<std::shared_ptr<SlowNetwork>> networks(static_cast<std::size_t>(of.machines));
  if (of.limits.any())
    for (std::shared_ptr<SlowNetwork>& each : networks) each = std::make_shared<SlowNetwork>(of.limits);
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (const Stage& stage : stages) {
    EndpointOptions options{.node = fmt::format("node_{}", stage.index), .address = "127.0.0.1:0"};
    options.key = {"0123456789abcdef", "0123456789abcdef0123456789abcdef"};
    options.slow_network = networks[static_cast<std::size_t>(placement.machine_of(stage.index))];
    endpoints.push_back(std::make_unique<Endpoint>(options));
  }
  std::vector<Clock::time_point> updates;  // of the first stage
  {
    std::vector<std::jthread> threads;
    for (const Stage& stage : stages) {
      threads.emplace_back([&, k = stage.index] {
        std::vector<EndpointPeer> peers;
        GroupOptions group;
        for (int peer = 0; peer < stage.count; ++peer) {
          group.members.push_back(fmt::format("node_{}", peer));
          if (peer == k) continue;
          peers.push_back({.node = group.members.back(),
                           .address = endpoints[peer]->address(),
                           .on_same_machine = placement.machine_of(peer) == placement.machine_of(k)});
        }
        endpoints[k]->start(peers);
        const std::unique_ptr<ZmqLink> link = endpoints[k]->open(group);
        Executable executable(stage, options_of(of, schedule, stage, kernels, processor),
                              initial_state(stage.graph, 1));
        StageWorker worker(
            executable, *link, schedule, [](const MicroBatch&, const std::string&, TensorView) {},
            of.clips ? std::optional(1.0) : std::nullopt);
        if (!turns.empty()) worker.take_turns(turns[static_cast<std::size_t>(placement.machine_of(k))].get());
        link->join();
        const std::vector<std::int64_t> sizes(
            is_synchronous(schedule) ? static_cast<std::size_t>(of.micro_batches) : 1, kSamples);
        const auto note = [&] {
          if (k == 0) updates.push_back(Clock::now());
        };
        if (is_synchronous(schedule)) {
          for (std::int64_t step = 0; step < batches; ++step) {
            worker.train(step, 0, sizes);
            note();
          }
          worker.settle();
        } else {
          worker.train({.batches = batches,
                        .begin = [&](std::int64_t) { return std::vector(sizes); },
                        .learning_rate = [](std::int64_t) { return 0.0; },
                        .end = [&](const BatchResult&) { note(); }});
        }
        link->leave();
      });
    }
  }
  const std::size_t edge = is_synchronous(schedule) ? 1 : static_cast<std::size_t>(3 * of.machines);
  std::vector<double> steps;
  for (std::size_t i = edge; i + edge < updates.size() + 1; ++i)
    steps.push_back(Seconds(updates[i] - updates[i - 1]).count());
  if (is_synchronous(schedule)) {
    std::ranges::nth_element(steps, steps.begin() + std::ssize(steps) / 2);
    return steps[steps.size() / 2];
  }
  return Seconds(updates[updates.size() - edge] - updates[edge]).count() /
         static_cast<double>(updates.size() - 2 * edge);
}

// Without a network: M (F + B + W) and what fills and empties the pipeline; of async one batch after the
// other.
double formula(const Case& of, const ScheduleSettings& schedule) {
  if (schedule.name == "async") return 3 * of.seconds;
  const int chunks = placement_on(schedule, of.machines).chunks;
  const double phases = schedule.name == "zbv" ? 0 : schedule.name == "zb" ? 1 : 2;
  return 3 * of.micro_batches * of.seconds + (of.machines - 1) * phases * of.seconds / chunks;
}

// Of the time without a network: within 3 % of the formula, or, where the formula has no waiting, a share of
// work of 95 %; and everywhere within 5 % of what the simulator says.
bool is_within_bars(const Case& of, const ScheduleSettings& schedule, double by_formula, double by_simulator,
                    double busy) {
  const bool waits = schedule.name == "1f1b" || schedule.name == "interleaved";
  const bool is_as_long = of.limits.any() || (waits ? by_formula <= 1.03 : busy >= 0.95);
  return is_as_long && std::abs(by_simulator - 1) <= 0.05;
}

int run(const ProgramArguments& arguments) {
  ::prctl(PR_SET_TIMERSLACK, 1);  // nanosecond: threads inherit it
  Case of{.machines = arguments["machines"].as<int>(),
          .chunks = arguments["chunks"].as<int>(),
          .micro_batches = arguments["micro-batches"].as<int>(),
          .seconds = arguments["ms"].as<double>() / 1e3,
          .measured_seconds = arguments["seconds"].as<double>(),
          .clips = arguments["clip"].as<bool>()};
  if (arguments.count("mbps") != 0) of.limits.mbps = arguments["mbps"].as<double>();
  of.limits.latency = std::chrono::microseconds(std::llround(1e3 * arguments["latency-ms"].as<double>()));
  fmt::print("{} machines, {} micro-batches, {} ms each phase; sleeps end {:.0f} us late\n", of.machines,
             of.micro_batches, 1e3 * of.seconds, 1e6 * WaitingKernel::late());
  fmt::print("{:<11} {:>9} {:>12} {:>12} {:>12} {:>9} {:>9} {:>6}\n", "schedule", "in flight", "measured ms",
             "formula ms", "simulated ms", "by form.", "by sim.", "busy");
  bool all_are_within = true;
  for (const char* name : {"1f1b", "zb", "interleaved", "zbv", "async"}) {
    const ScheduleSettings given{.name = name, .chunks = of.chunks};
    const Graph graph = chain(placement_on(given, of.machines).stages());
    const std::vector<Stage> stages = stages_of(graph);
    const ScheduleSettings schedule = with_enough_in_flight(of, given, stages);
    const KernelChoice kernels = choose_kernels(graph, kSamples);
    const double expected = simulated(of, schedule, stages);
    const double seconds = measured(of, schedule, stages, kernels, expected);
    const double work = 3 * of.seconds * (is_synchronous(schedule) ? of.micro_batches : 1);
    const double by_formula = seconds / formula(of, schedule);
    const bool is_within = is_within_bars(of, schedule, by_formula, seconds / expected, work / seconds);
    all_are_within &= is_within;
    fmt::print("{:<11} {:>9} {:>12.2f} {:>12.2f} {:>12.2f} {:>9.3f} {:>9.3f} {:>5.1f}% {}\n", name,
               schedule.planned.front(), 1e3 * seconds, 1e3 * formula(of, schedule), 1e3 * expected,
               by_formula, seconds / expected, 100 * work / seconds, is_within ? "PASS" : "BELOW BAR");
    std::fflush(stdout);
  }
  return all_are_within ? kDone : kFailed;
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  const rookery::ProgramInfo info{
      .name = "schedule_times",
      .summary =
          "Measures how long a batch takes by each schedule, with stages that wait instead of computing.",
      .example =
          "  schedule_times\n  schedule_times --machines 4 --ms 4 --mbps 100 --latency-ms 25 --micro-batches "
          "64"};
  rookery::ProgramOptions options("Options");
  options.add_options()("machines", po::value<int>()->default_value(8), "in a row")(
      "chunks", po::value<int>()->default_value(2), "stages that each has by interleaved")(
      "micro-batches", po::value<int>()->default_value(32), "of a batch")(
      "ms", po::value<double>()->default_value(40, "40"), "of a forward, and of each backward phase")(
      "mbps", po::value<double>(), "that every stage sends at most")(
      "latency-ms", po::value<double>()->default_value(0, "0"), "added to the way of every message")(
      "seconds", po::value<double>()->default_value(5, "5"), "measured by each schedule, about")(
      "clip", po::bool_switch(), "gradients are clipped by the norm of all stages'");
  return rookery::run_program(info, options, argc, argv, rookery::run);
}
