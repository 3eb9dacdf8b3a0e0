#include "clusterize/costs/step_parts.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "models/base/check.hpp"
#include "trainer/schedule/machine_order.hpp"

namespace rookery {
namespace {

// Values between a stage and the next one.
struct Boundary {
  double activation_bytes = 0;
  double gradient_bytes = 0;
};

Boundary boundary_behind(const ModelCosts& costs, const StagePartition& cut, std::size_t stage) {
  const Segment& next = costs.segments[cut.begins[stage + 1]];
  return {next.activation_bytes, next.gradient_bytes};
}

// What machines, their connections and the ways between them do for a micro-batch, each for all stages that
// it has.
class Loads {
 public:
  // Both of the caller.
  Loads(const ThroughputModel& model, const std::vector<int>& members) : model_(model), members_(members) {
    for (std::size_t stage = 0; stage < members.size(); ++stage)
      machines_[machine(stage)].connection = model.machine(members[stage], members.size()).bytes_per_second;
  }

  void add_work(std::size_t stage, double seconds) { machines_[machine(stage)].work += seconds; }
  void add_update(std::size_t stage, double seconds) { machines_[machine(stage)].update += seconds; }

  void add_bytes(std::size_t from, std::size_t to, double bytes) {
    const std::pair between(machine(from), machine(to));
    ways_[between] += bytes / model_.way(members_[from], members_[to]).bytes_per_second;
    if (between.first == between.second) return;
    machines_[between.first].out += bytes;
    machines_[between.second].in += bytes;
  }

  // What takes longest: of ways and connections, and of machines too.
  double busiest_way() const {
    double most = 0;
    for (const auto& [number, own] : machines_)
      most = std::max(most, std::max(own.out, own.in) / own.connection);
    for (const auto& [between, seconds] : ways_) most = std::max(most, seconds);
    return most;
  }
  double busiest() const {
    double most = busiest_way();
    for (const auto& [number, own] : machines_) most = std::max(most, own.work);
    return most;
  }
  double longest_update() const {
    double longest = 0;
    for (const auto& [number, own] : machines_) longest = std::max(longest, own.update);
    return longest;
  }

 private:
  struct Machine {
    double work = 0;  // seconds
    double update = 0;
    double out = 0;  // bytes
    double in = 0;
    double connection = 0;  // bytes per second
  };

  int machine(std::size_t stage) const { return model_.pool().machine(members_[stage]); }

  const ThroughputModel& model_;
  const std::vector<int>& members_;
  std::map<int, Machine> machines_;             // by their numbers in the pool
  std::map<std::pair<int, int>, double> ways_;  // from machine to machine, or within one: seconds
};

// Of a micro-batch.
struct StageSeconds {
  double forward = 0;
  double inputs = 0;  // the first phase of backward
  double weights = 0;
  double activation = 0;  // on its way to the next stage
  double gradient = 0;    // on its way to the one before
};

// Batches on machines that keep to their orders (machine_order.hpp), one behind the other, without updates.
// What is on its way does not wait for anything else.
class OrderRun {
 public:
  // `stages`: of the caller.
  OrderRun(const ScheduleSettings& schedule, const std::vector<StageSeconds>& stages, int micro_batches,
           int batches)
      : stages_(stages),
        micro_batches_(micro_batches),
        ends_(static_cast<std::size_t>(batches), 0),
        activations_(stages.size() * ends_.size() * static_cast<std::size_t>(micro_batches), kNotSent),
        gradients_(activations_) {
    const auto count = static_cast<int>(stages.size());
    for (int machine = 0; machine < placement_of(schedule, count).machines; ++machine)
      machines_.push_back({.order = machine_order(schedule, machine, count, micro_batches)});
  }

  // By batch: when the last machine has ended it.
  std::vector<double> ends() {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (Machine& machine : machines_) {
        while (advance(machine)) goes_on = true;
      }
    }
    for (const Machine& machine : machines_)
      ROOKERY_CHECK(machine.batch == ends_.size(), "a machine waits for ever");
    return ends_;
  }

 private:
  static constexpr double kNotSent = -1;

  struct Machine {
    std::vector<StageAction> order;  // of a batch
    std::size_t batch = 0;
    std::size_t next = 0;  // in its order
    double now = 0;
  };

  // False where nothing is left to do, or what is next needs something that is not sent yet.
  bool advance(Machine& machine) {
    if (machine.batch == ends_.size()) return false;
    const auto [stage, kind, in_batch] = machine.order[machine.next];
    const int micro_batch = static_cast<int>(machine.batch) * micro_batches_ + in_batch;
    const StageSeconds& own = stages_[static_cast<std::size_t>(stage)];
    if (kind == ActionKind::kForward) {
      if (stage > 0 && !wait(machine, activation(stage - 1, micro_batch))) return false;
      machine.now += own.forward;
      activation(stage, micro_batch) = machine.now + own.activation;
    } else if (kind == ActionKind::kBackwardInputs) {
      if (stage + 1 < std::ssize(stages_) && !wait(machine, gradient(stage + 1, micro_batch))) return false;
      machine.now += own.inputs;
      gradient(stage, micro_batch) = machine.now + own.gradient;
    } else {
      machine.now += own.weights;
    }
    if (++machine.next == machine.order.size()) {
      machine.next = 0;
      ends_[machine.batch] = std::max(ends_[machine.batch], machine.now);
      ++machine.batch;
    }
    return true;
  }

  static bool wait(Machine& machine, double arrival) {
    machine.now = std::max(machine.now, arrival);
    return arrival != kNotSent;
  }

  double& activation(int stage, int micro_batch) { return activations_[index(stage, micro_batch)]; }
  double& gradient(int stage, int micro_batch) { return gradients_[index(stage, micro_batch)]; }
  std::size_t index(int stage, int micro_batch) const {
    return static_cast<std::size_t>(micro_batch) * stages_.size() + static_cast<std::size_t>(stage);
  }

  const std::vector<StageSeconds>& stages_;
  const int micro_batches_;  // of a batch
  std::vector<double> ends_;
  std::vector<double> activations_;  // when those of a stage arrive at the next one; by micro-batch and it
  std::vector<double> gradients_;    // likewise, at the one before
  std::vector<Machine> machines_;
};

// Without their transfers. Both phases of backward take as long, but for what is computed again.
std::vector<StageSeconds> work_of_stages(const std::vector<StageTimes>& times, const StagePartition& cut) {
  std::vector<StageSeconds> all;
  for (std::size_t stage = 0; stage < times.size(); ++stage) {
    const double forward = times[stage].forward;
    const double again = cut.recompute[stage] ? forward : 0;
    const double phase = (times[stage].backward - again) / 2;
    all.push_back({.forward = forward, .inputs = again + phase, .weights = phase});
  }
  return all;
}

// Calls action(k, m, seconds) for every row of stages k ≤ m: of a micro-batch through it and back.
template <typename Action>
void for_each_row(const StepParts& parts, bool is_async, const Action& action) {
  for (std::size_t first = parts.work.size(); first-- > 0;) {
    double seconds = is_async ? parts.updates[first] : 0;
    for (std::size_t last = first; last < parts.work.size(); ++last) {
      seconds += parts.work[last] + (last > first ? parts.transfers[last - 1] : 0);
      action(first, last, seconds);
    }
  }
}

// From one batch to the next. Where W may come late, and nobody waits for the norm of all gradients, a
// machine begins a batch before the others have ended the one before: then of a pipeline that is full.
double seconds_of_orders(const ModelCosts& costs, const ScheduleSettings& schedule,
                         const std::vector<StageSeconds>& of_stages) {
  const bool overlap = delays_weights(schedule) && !costs.waits_for_norm;
  if (!overlap) return OrderRun(schedule, of_stages, costs.micro_batches, 1).ends().front();
  const int fill = (static_cast<int>(of_stages.size()) + costs.micro_batches - 1) / costs.micro_batches;
  const std::vector<double> ends = OrderRun(schedule, of_stages, costs.micro_batches, fill + 2).ends();
  return ends.back() - *(ends.end() - 2);
}

// So few may be under way that a stage waits for their round trip. A machine with several stages waits for
// the one whose turn it is, although others could go on; but a pipeline of them is filled sooner.
void set_period(const ModelCosts& costs, const ScheduleSettings& schedule,
                const std::vector<StageSeconds>& of_stages, double busiest_way, StepParts& parts) {
  const bool is_async = !is_synchronous(schedule);
  const int micro_batches = costs.micro_batches;
  if (micro_batches == 1 && !is_async) return;
  parts.period = parts.busiest;
  const auto stages = static_cast<int>(parts.work.size());
  if (placement_of(schedule, stages).chunks > 1) {
    const double all = seconds_of_orders(costs, schedule, of_stages);
    parts.period = std::max(busiest_way, (all - parts.round_trip) / (micro_batches - 1));
    return;
  }
  const auto most = [&](int stage) { return most_in_flight(schedule, stage, stages, micro_batches); };
  if (!is_async) {
    if (most(0) < micro_batches) parts.period = std::max(parts.period, parts.round_trip / most(0));
    return;
  }
  for_each_row(parts, is_async, [&](std::size_t first, std::size_t last, double seconds) {
    const int turning = in_flight(schedule, static_cast<int>(last), stages, micro_batches);
    parts.period = std::max(parts.period, seconds / (most(static_cast<int>(first)) - turning + 1));
  });
}

}  // namespace

StepParts step_parts(const ThroughputModel& model, const std::vector<int>& members, const StagePartition& cut,
                     const ScheduleSettings& schedule) {
  const ModelCosts& costs = model.costs();
  const bool is_async = !is_synchronous(schedule);
  StepParts parts;
  Loads loads(model, members);
  const std::vector<StageTimes> times = model.stage_times(members, cut);
  std::vector<StageSeconds> of_stages = work_of_stages(times, cut);
  for (std::size_t stage = 0; stage < members.size(); ++stage) {
    parts.work.push_back(times[stage].forward + times[stage].backward);
    parts.updates.push_back(times[stage].update / (is_async ? costs.micro_batches : 1));
    loads.add_work(stage, parts.work.back() + (is_async ? parts.updates.back() : 0));
    loads.add_update(stage, times[stage].update);
    double both_ways = 0;
    if (stage + 1 < members.size()) {
      const Boundary behind = boundary_behind(costs, cut, stage);
      const CutWay way = model.way(members[stage], members[stage + 1]);
      both_ways = 2 * way.latency + (behind.activation_bytes + behind.gradient_bytes) / way.bytes_per_second;
      of_stages[stage].activation = way.latency + behind.activation_bytes / way.bytes_per_second;
      of_stages[stage + 1].gradient = way.latency + behind.gradient_bytes / way.bytes_per_second;
      loads.add_bytes(stage, stage + 1, behind.activation_bytes);
      loads.add_bytes(stage + 1, stage, behind.gradient_bytes);
    }
    parts.transfers.push_back(both_ways);
  }
  parts.update = loads.longest_update();
  parts.busiest = loads.busiest();
  parts.round_trip = std::accumulate(parts.work.begin(), parts.work.end(), 0.0) +
                     std::accumulate(parts.transfers.begin(), parts.transfers.end(), 0.0);
  set_period(costs, schedule, of_stages, loads.busiest_way(), parts);
  parts.exchange = model.exchange_seconds(members, cut.begins);
  parts.step = parts.exchange +
               (is_async ? costs.micro_batches * parts.period
                         : parts.round_trip + (costs.micro_batches - 1) * parts.period + parts.update);
  return parts;
}

std::vector<int> needed_in_flight(const StepParts& parts, const ScheduleSettings& schedule, int micro_batches,
                                  double haste) {
  const auto stages = static_cast<int>(parts.work.size());
  const bool is_async = !is_synchronous(schedule);
  std::vector<int> needed;
  for (int stage = 0; stage < stages; ++stage)
    needed.push_back(in_flight(schedule, stage, stages, micro_batches));
  if (parts.busiest == 0) return needed;
  bool is_too_much = false;
  // From the last stage to the first, so that those of the row's end are known.
  for_each_row(parts, is_async, [&](std::size_t first, std::size_t last, double seconds) {
    if (first == last) return;
    constexpr double kRounding = 1e-9;
    const double ahead = std::ceil(haste * seconds / parts.busiest - kRounding) - 1;
    const int most = most_in_flight(schedule, static_cast<int>(first), stages, micro_batches);
    const double wanted = ahead + needed[last];
    is_too_much |= wanted > most;
    needed[first] = std::max(needed[first], static_cast<int>(std::min<double>(most, wanted)));
  });
  // A synchronous batch ends with the last of its micro-batches, so that all of them are enough. Where
  // batches follow each other, all rows have to do with less.
  if (is_async && is_too_much) return needed_in_flight(parts, schedule, micro_batches, 0.9 * haste);
  return needed;
}

}  // namespace rookery
