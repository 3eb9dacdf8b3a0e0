#include "clusterize/costs/step_parts.hpp"

#include <algorithm>
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

void set_period(const ModelCosts& costs, const std::vector<StageTimes>& times, StepParts& parts) {
  const bool is_async = !is_synchronous(costs.schedule);
  if (costs.micro_batches == 1 && !is_async) return;
  const auto stages = static_cast<int>(parts.work.size());
  for (int stage = 0; stage < stages; ++stage) {
    const auto at = static_cast<std::size_t>(stage);
    parts.period = std::max({parts.period, parts.work[at] + (is_async ? times[at].update : 0),
                             parts.link_busy[at], parts.connections[at]});
  }
  // So few may be under way that a stage waits for their round trip.
  if (!is_async) {
    parts.period = std::max(parts.period, parts.round_trip / costs.slots(0, stages));
    return;
  }
  for (int first = 0; first < stages; ++first) {
    double seconds = times[first].update;
    for (int last = first; last < stages; ++last) {
      const auto at = static_cast<std::size_t>(last);
      seconds += parts.work[at] + (last > first ? parts.transfers[at - 1] : 0);
      parts.period =
          std::max(parts.period, seconds / (costs.slots(first, stages) - costs.slots(last, stages) + 1));
    }
  }
}

}  // namespace

StepParts step_parts(const CostModel& model, const std::vector<int>& members, const StagePartition& cut) {
  const ModelCosts& costs = model.costs();
  StepParts parts;
  Boundary before;
  const std::vector<StageTimes> times = model.stage_times(members, cut);
  for (std::size_t stage = 0; stage < members.size(); ++stage) {
    const Boundary behind = boundary_behind(costs, cut, stage);
    parts.work.push_back(times[stage].forward + times[stage].backward);
    parts.update = std::max(parts.update, times[stage].update);
    double both_ways = 0;
    double busy = 0;
    if (stage + 1 < members.size()) {
      const CutWay way = model.way(members[stage], members[stage + 1]);
      both_ways = 2 * way.latency + (behind.activation_bytes + behind.gradient_bytes) / way.bytes_per_second;
      busy = std::max(behind.activation_bytes, behind.gradient_bytes) / way.bytes_per_second;
    }
    parts.transfers.push_back(both_ways);
    parts.link_busy.push_back(busy);
    parts.connections.push_back(std::max(before.activation_bytes + behind.gradient_bytes,
                                         before.gradient_bytes + behind.activation_bytes) /
                                model.machine(members[stage], members.size()).bytes_per_second);
    before = behind;
  }
  parts.round_trip = std::accumulate(parts.work.begin(), parts.work.end(), 0.0) +
                     std::accumulate(parts.transfers.begin(), parts.transfers.end(), 0.0);
  set_period(costs, times, parts);
  const double others = is_synchronous(costs.schedule)
                            ? parts.round_trip + (costs.micro_batches - 1) * parts.period + parts.update
                            : parts.period;
  parts.exchange = std::max(0.0, cut.step_seconds - others);
  // What the sums differ by in their rounding.
  if (parts.exchange < 1e-9 * cut.step_seconds) parts.exchange = 0;
  return parts;
}

}  // namespace rookery
