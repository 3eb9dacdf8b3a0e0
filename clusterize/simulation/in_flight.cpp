#include "clusterize/simulation/in_flight.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "clusterize/costs/stage_memory.hpp"
#include "clusterize/simulation/simulation.hpp"
#include "models/kernels/threads.hpp"
#include "trainer/schedule/machine_order.hpp"
#include "trainer/trainer.hpp"

namespace rookery {
namespace {

// A cluster's memory by what is in flight on its stages.
class ClusterRoom {
 public:
  ClusterRoom(const TrainingTask& task, const NodePool& pool, const Planned& planned, std::size_t cluster)
      : task_(task),
        pool_(pool),
        members_(planned.members[cluster]),
        stages_(planned.stages[cluster]),
        planned_(planned.plan.clusters[cluster].stages),
        sizes_(micro_batch_sizes(task.settings, task.settings.batch_size)),
        clusters_(static_cast<int>(planned.plan.clusters.size())),
        updates_ahead_(updates_ahead(task, planned.plan)),
        known_(stages_.size()) {}

  bool fits(const std::vector<int>& in_flight) {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage)
      if (!fits(stage, in_flight)) return false;
    return true;
  }

 private:
  bool fits(std::size_t stage, const std::vector<int>& in_flight) {
    TrainingSettings settings = task_.settings;
    settings.schedule.planned = in_flight;
    settings.schedule.updates_ahead = updates_ahead_;
    const StagePrediction& others = planned_[stage].prediction;
    const auto micro_batches = static_cast<int>(sizes_.size());
    const std::int64_t bytes =
        bytes_of(stage, settings) + others.dataset_bytes + others.averaging_bytes +
        transport_bytes(stages_[stage], sizes_.front(), settings.schedule, micro_batches, encoding_of(task_));
    return static_cast<double>(bytes) <= 1e9 * pool_.node(members_[stage]).ram_gb;
  }

  std::int64_t bytes_of(std::size_t at, const TrainingSettings& settings) {
    const Stage& stage = stages_[at];
    CompileOptions options = compile_options(settings, task_.data, stage.index, stage.count, task_.kernels);
    options.recompute = planned_[at].recompute;
    options.updates_in_backward = may_update_in_backward(settings, options.micro_batches, clusters_);
    std::map<Kind, std::int64_t>& known = known_[at];
    const Kind kind(options.slots, options.delays_weights);
    if (const auto found = known.find(kind); found != known.end()) return found->second;
    const KernelThreads threads(pool_.threads(members_[at]));
    if (options.recompute) return known[kind] = memory_use(stage, options).total();
    const std::vector<MemoryUse> uses = memory_by_slots(stage, options);
    for (std::size_t i = 0; i < uses.size(); ++i)
      known[{static_cast<int>(i) + 1, options.delays_weights}] = uses[i].total();
    return known[kind];
  }

  using Kind = std::pair<int, bool>;  // slots, and whether W is delayed

  const TrainingTask& task_;  // all of the caller
  const NodePool& pool_;
  const std::vector<int>& members_;
  const std::vector<Stage>& stages_;
  const std::vector<PlannedStage>& planned_;
  const std::vector<std::int64_t> sizes_;  // of micro-batches
  const int clusters_;
  const bool updates_ahead_;
  std::vector<std::map<Kind, std::int64_t>> known_;  // by stage: bytes as it is compiled
};

void set_in_flight(std::vector<PlannedStage>& stages, const std::vector<int>& in_flight) {
  for (std::size_t stage = 0; stage < stages.size(); ++stage) stages[stage].in_flight = in_flight[stage];
}

// What there is without a choice; and where the busiest part needs more, from fewer to more than it needs on
// the average, none twice: memory may be scarce, and messages come in bursts.
std::vector<std::vector<int>> candidates(const StepParts& parts, const ScheduleSettings& schedule,
                                         int micro_batches) {
  std::vector<std::vector<int>> all{needed_in_flight(parts, schedule, micro_batches, 0)};
  if (needed_in_flight(parts, schedule, micro_batches) == all.front()) return all;
  for (const double haste : {0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.2, 1.5}) {
    std::vector<int> next = needed_in_flight(parts, schedule, micro_batches, haste);
    if (next != all.back()) all.push_back(std::move(next));
  }
  return all;
}

}  // namespace

std::vector<int> choose_in_flight(const TrainingTask& task, const NodePool& pool, Planned& planned,
                                  std::size_t cluster, const StepParts& parts) {
  constexpr double kLeastGain = 0.02;  // of a step, for the memory that it takes
  const ScheduleSettings& schedule = task.settings.schedule;
  const int micro_batches = planned.costs.micro_batches;
  std::vector<std::vector<int>> possible =
      has_chunks(schedule) ? possible_in_flight(schedule, static_cast<int>(parts.work.size()), micro_batches)
                           : candidates(parts, schedule, micro_batches);
  ClusterRoom room(task, pool, planned, cluster);
  while (possible.size() > 1 && !room.fits(possible.back())) possible.pop_back();
  std::vector<PlannedStage>& stages = planned.plan.clusters[cluster].stages;
  const std::vector<int> usual = possible.front();
  std::vector<int> best = usual;
  double shortest = 0;
  for (std::size_t i = 0; i < possible.size() && possible.size() > 1; ++i) {
    set_in_flight(stages, possible[i]);
    const double seconds = simulated_step_seconds(task, pool, planned, cluster, task.settings.batch_size);
    if (i > 0 && seconds > shortest * (1 - kLeastGain)) continue;
    shortest = seconds;
    best = possible[i];
  }
  set_in_flight(stages, usual);
  return best;
}

}  // namespace rookery
