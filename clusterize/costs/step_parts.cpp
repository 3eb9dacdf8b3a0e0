#include "clusterize/costs/step_parts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trainer/schedule/schedule.hpp"

namespace rookery {
namespace {

// Values between a stage and the next one.
struct Boundary {
  double activation_bytes = 0;
  double gradient_bytes = 0;
};

Boundary boundary_behind(const ModelCosts& costs, const StagePartition& cut, std::size_t stage) {
  if (stage + 1 >= cut.begins.size()) return {};
  const Segment& next = costs.segments[cut.begins[stage + 1]];
  return {next.activation_bytes, next.gradient_bytes};
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

// So few may be under way that a stage waits for their round trip.
void set_period(const ScheduleSettings& schedule, int micro_batches, StepParts& parts) {
  const bool is_async = !is_synchronous(schedule);
  if (micro_batches == 1 && !is_async) return;
  parts.period = parts.busiest;
  const auto stages = static_cast<int>(parts.work.size());
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
  Boundary before;
  const std::vector<StageTimes> times = model.stage_times(members, cut);
  for (std::size_t stage = 0; stage < members.size(); ++stage) {
    const Boundary behind = boundary_behind(costs, cut, stage);
    parts.work.push_back(times[stage].forward + times[stage].backward);
    parts.updates.push_back(times[stage].update / (is_async ? costs.micro_batches : 1));
    parts.update = std::max(parts.update, times[stage].update);
    double both_ways = 0;
    double busy = 0;
    if (stage + 1 < members.size()) {
      const CutWay way = model.way(members[stage], members[stage + 1]);
      both_ways = 2 * way.latency + (behind.activation_bytes + behind.gradient_bytes) / way.bytes_per_second;
      busy = std::max(behind.activation_bytes, behind.gradient_bytes) / way.bytes_per_second;
    }
    parts.transfers.push_back(both_ways);
    parts.connections.push_back(std::max(before.activation_bytes + behind.gradient_bytes,
                                         before.gradient_bytes + behind.activation_bytes) /
                                model.machine(members[stage], members.size()).bytes_per_second);
    parts.busiest = std::max({parts.busiest, parts.work.back() + (is_async ? parts.updates.back() : 0), busy,
                              parts.connections.back()});
    before = behind;
  }
  parts.round_trip = std::accumulate(parts.work.begin(), parts.work.end(), 0.0) +
                     std::accumulate(parts.transfers.begin(), parts.transfers.end(), 0.0);
  set_period(schedule, costs.micro_batches, parts);
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
