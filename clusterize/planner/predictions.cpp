#include "clusterize/planner/predictions.hpp"

#include <numeric>

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/stage_memory.hpp"
#include "clusterize/costs/step_parts.hpp"
#include "clusterize/simulation/planned_links.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/kernels/threads.hpp"
#include "trainer/trainer.hpp"

namespace rookery {
namespace {

std::int64_t count_parameters(const Stage& stage) {
  std::int64_t count = 0;
  for (const ValueId id : stage.owned_parameters()) count += stage.graph.value(id).type.shape.elements();
  return count;
}

PlannedStage plan_stage(const TrainingTask& task, const TrainingSettings& settings, std::size_t clusters,
                        const PoolNode& node, const Stage& stage, std::vector<OpId> ops,
                        const StageTimes& times, bool recompute, const EdgeEncoding& encoding) {
  const std::vector<std::int64_t> sizes = micro_batch_sizes(settings, settings.batch_size);
  const auto micro_batches = static_cast<int>(sizes.size());
  CompileOptions options = compile_options(settings, task.data, stage.index, stage.count, task.kernels);
  options.recompute = recompute;
  options.updates_in_backward =
      may_update_in_backward(settings, options.micro_batches, static_cast<int>(clusters));
  const KernelThreads threads(node.threads.value_or(1));
  PlannedStage planned{.node = "node_" + node.id,
                       .address = node.address,
                       .threads = kernel_threads(),
                       .reachable = node.reachable,
                       .ops = std::move(ops),
                       .parameters = count_parameters(stage),
                       .recompute = recompute,
                       .in_flight = in_flight(settings.schedule, stage.index, stage.count, micro_batches),
                       .prediction = {.forward_ms = 1e3 * times.forward,
                                      .backward_ms = 1e3 * times.backward,
                                      .send_ms = 1e3 * times.send,
                                      .update_ms = 1e3 * times.update,
                                      .memory = memory_use(stage, options),
                                      .transport_bytes = transport_bytes(
                                          stage, sizes.front(), settings.schedule, micro_batches, encoding),
                                      .dataset_bytes = stage.is_root() ? task.data.bytes : 0}};
  check_fits(planned, node);
  return planned;
}

std::vector<int> usual_in_flight(const ModelCosts& costs, std::size_t stages) {
  std::vector<int> usual;
  for (int stage = 0; stage < static_cast<int>(stages); ++stage)
    usual.push_back(in_flight(costs.schedule, stage, static_cast<int>(stages), costs.micro_batches));
  return usual;
}

void add_flops(const ModelCosts& costs, const StagePartition& cut, std::vector<PlannedStage>& stages) {
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const int end = stage + 1 < stages.size() ? cut.begins[stage + 1] : costs.count();
    for (int i = cut.begins[stage]; i < end; ++i) {
      const Segment& segment = costs.segments[i];
      stages[stage].forward_flops += segment.work.forward_flops;
      stages[stage].backward_flops += segment.work.backward_flops;
    }
  }
}

PlannedCluster predicted_with(const TrainingTask& task, const ThroughputModel& model, std::size_t clusters,
                              const std::vector<int>& members, const StagePartition& cut,
                              const std::vector<Stage>& stages, const std::vector<int>& in_flight,
                              const EdgeEncoding& encoding) {
  TrainingSettings settings = task.settings;
  settings.schedule.updates_ahead = may_update_ahead(settings, task.graph);
  settings.schedule.planned = in_flight.empty() ? usual_in_flight(model.costs(), members.size()) : in_flight;
  const StepParts parts = step_parts(model, members, cut, settings.schedule);
  const std::int64_t micro_batch = micro_batch_sizes(settings, settings.batch_size).front();
  PlannedCluster cluster{.links = planned_links(model.pool(), members, stages, micro_batch, encoding),
                         .predicted_step_ms = 1e3 * parts.step,
                         .round_trip_ms = 1e3 * parts.round_trip,
                         .period_ms = 1e3 * parts.period,
                         .update_ms = 1e3 * parts.update,
                         .exchange_ms = 1e3 * parts.exchange};
  const std::vector<StageTimes> times = model.stage_times(members, cut);
  OpId first = 0;
  for (std::size_t stage = 0; stage < members.size(); ++stage) {
    std::vector<OpId> ops(stages[stage].graph.ops().size());
    std::iota(ops.begin(), ops.end(), first);
    first += static_cast<OpId>(ops.size());
    const PoolNode& node = model.pool().node(members[stage]);
    cluster.stages.push_back(plan_stage(task, settings, clusters, node, stages[stage], std::move(ops),
                                        times[stage], cut.recompute[stage], encoding));
  }
  add_flops(model.costs(), cut, cluster.stages);
  return cluster;
}

}  // namespace

void check_fits(const PlannedStage& stage, const PoolNode& node) {
  const auto needed = static_cast<double>(stage.prediction.total_bytes());
  if (needed <= 1e9 * node.ram_gb) return;
  throw ConfigError(
      fmt::format("{} ({}): its stage needs {:.3g} GB, but the machine has {} GB: use a smaller batch_size",
                  stage.node, stage.address, needed / 1e9, node.ram_gb));
}

PlannedCluster predicted_cluster(const TrainingTask& task, const ThroughputModel& searched,
                                 std::size_t clusters, const std::vector<int>& members,
                                 const StagePartition& cut, const std::vector<Stage>& stages,
                                 const std::vector<int>& in_flight, const std::vector<PlannedLink>& links) {
  if (!links.empty()) {
    const ModelCosts costs =
        with_transport(searched.costs(), task.graph, task.settings, cut.begins, encoding_of(task, links));
    return predicted_with(task, ThroughputModel(searched.pool(), costs), clusters, members, cut, stages,
                          in_flight, encoding_of(task, links));
  }
  return predicted_with(task, searched, clusters, members, cut, stages, in_flight, encoding_of(task));
}

}  // namespace rookery
