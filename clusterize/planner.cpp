#include "clusterize/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <span>

#include "clusterize/alternatives.hpp"
#include "clusterize/cut_refinement.hpp"
#include "clusterize/planned_links.hpp"
#include "clusterize/rings.hpp"
#include "clusterize/simulation.hpp"
#include "clusterize/stage_memory.hpp"
#include "clusterize/step_parts.hpp"
#include "clusterize/time_limit.hpp"
#include "models/base/error.hpp"
#include "trainer/trainer.hpp"

namespace rookery {
namespace {

std::string node_name(const PoolNode& node) {
  return "node_" + node.id;
}

// FNV-1a, 64 bits, as 16 hex digits.
class Digest {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  }
  void add(const std::string& text) { add(std::as_bytes(std::span(text))); }
  std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

OrderedJson to_json(const PoolNode& node) {
  return {{"id", node.id},
          {"address", node.address},
          {"ram", node.ram_gb},
          {"bandwidth", node.bandwidth_mbps},
          {"gflops", node.gflops.value_or(0)},
          {"transfer_gbps", node.transfer_gbps.value_or(0)},
          {"region", node.region}};
}

// Everything that decides the run: who trains what on which data, cut how, computed by which kernels.
std::string plan_digest(const TrainingTask& task, const NodePool& pool, const ClusterPlan& plan) {
  OrderedJson nodes = OrderedJson::array();
  for (const PoolNode& node : pool.nodes()) nodes.push_back(to_json(node));
  OrderedJson cuts = OrderedJson::array();
  for (const PlannedCluster& cluster : plan.clusters) {
    OrderedJson stages = OrderedJson::array();
    for (const PlannedStage& stage : cluster.stages) stages.push_back({stage.node, stage.ops});
    cuts.push_back(stages);
  }
  OrderedJson all = {{"settings", to_json(task.settings)},
                     {"data", {task.data.train_samples, task.data.validation_samples}},
                     {"nodes", nodes},
                     {"cuts", cuts},
                     {"kernels", task.kernels}};
  if (!task.weights.empty()) all["weights"] = task.weights;
  Digest digest;
  digest.add(all.dump());
  return digest.text();
}

std::vector<OpId> op_begins(const ModelCosts& costs, const InnerCut& cut) {
  std::vector<OpId> begins;
  for (const int segment : cut.begins)
    begins.push_back(costs.segments[static_cast<std::size_t>(segment)].begin);
  return begins;
}

std::int64_t count_parameters(const Stage& stage) {
  std::int64_t count = 0;
  for (const ValueId id : stage.owned_parameters()) count += stage.graph.value(id).type.shape.elements();
  return count;
}

PlannedStage plan_stage(const TrainingTask& task, const PoolNode& node, const Stage& stage,
                        std::vector<OpId> ops, const StageTimes& times, bool recompute) {
  const std::int64_t micro_batch = micro_batch_sizes(task.settings, task.settings.batch_size).front();
  CompileOptions options = compile_options(task.settings, task.data, stage.index, stage.count, task.kernels);
  options.recompute = recompute;
  PlannedStage planned{.node = node_name(node),
                       .address = node.address,
                       .ops = std::move(ops),
                       .parameters = count_parameters(stage),
                       .recompute = recompute,
                       .prediction = {.forward_ms = 1e3 * times.forward,
                                      .backward_ms = 1e3 * times.backward,
                                      .send_ms = 1e3 * times.send,
                                      .update_ms = 1e3 * times.update,
                                      .memory = memory_use(stage, options),
                                      .transport_bytes = transport_bytes(stage, micro_batch),
                                      .dataset_bytes = stage.is_root() ? task.data.bytes : 0}};
  const auto needed = static_cast<double>(planned.prediction.total_bytes());
  if (needed > 1e9 * node.ram_gb) {
    throw ConfigError(
        fmt::format("{} ({}): its stage needs {:.3g} GB, but the machine has {} GB: use a smaller batch_size",
                    planned.node, planned.address, needed / 1e9, node.ram_gb));
  }
  return planned;
}

void add_flops(const ModelCosts& costs, const InnerCut& cut, std::vector<PlannedStage>& stages) {
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const int end = stage + 1 < stages.size() ? cut.begins[stage + 1] : costs.count();
    for (int i = cut.begins[stage]; i < end; ++i) {
      const Segment& segment = costs.segments[static_cast<std::size_t>(i)];
      stages[stage].forward_flops += segment.forward_flops;
      stages[stage].backward_flops += segment.backward_flops;
    }
  }
}

PlannedCluster plan_cluster(const TrainingTask& task, const CostModel& model, const std::vector<int>& members,
                            const InnerCut& cut, const std::vector<Stage>& stages) {
  const StepParts parts = step_parts(model, members, cut);
  const std::int64_t micro_batch = micro_batch_sizes(task.settings, task.settings.batch_size).front();
  PlannedCluster cluster{.links = planned_links(model.pool(), members, stages, micro_batch),
                         .predicted_step_ms = 1e3 * cut.step_seconds,
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
    const PoolNode& node = model.pool().nodes()[static_cast<std::size_t>(members[stage])];
    cluster.stages.push_back(
        plan_stage(task, node, stages[stage], std::move(ops), times[stage], cut.recompute[stage]));
  }
  add_flops(model.costs(), cut, cluster.stages);
  return cluster;
}

// Estimates no more: dear, because a stage is compiled for every range that is asked for.
void measure_memory(ModelCosts& costs) {
  const auto measured = std::move(costs.measured_memory);
  costs.measured_memory = nullptr;
  costs.memory = [measured](int first, int last, int slots) { return measured(first, last, slots, false); };
  costs.recomputed_memory = [measured](int first, int last, int slots) {
    return measured(first, last, slots, true);
  };
}

// Fewer for many nodes, so that a plan is made in a user's time; but several for each machine that the
// model's state needs.
int most_segments(const TrainingTask& task, const NodePool& pool) {
  constexpr double kForAllNodes = 1200;
  constexpr double kLeast = 24;
  constexpr double kPerMachine = 6;
  double state = 0;  // weights, gradients and two numbers of an optimizer
  for (const ValueId id : task.graph.parameters())
    state += 4 * static_cast<double>(task.graph.value(id).type.bytes());
  double smallest = std::numeric_limits<double>::infinity();
  for (const PoolNode& node : pool.nodes()) smallest = std::min(smallest, 1e9 * node.ram_gb);
  const double wanted = std::max(
      {kLeast, kForAllNodes / static_cast<double>(pool.nodes().size()), kPerMachine * state / smallest});
  return static_cast<int>(std::min<double>(wanted, kMostSegments));
}

// Do the stages fit their machines by what they take in truth? Those that the costs took to be smaller are
// known then.
bool fits(const CostModel& model, const Clusters& clusters, const std::vector<const InnerCut*>& cuts) {
  const ModelCosts& costs = model.costs();
  if (!costs.measured_memory) return true;
  bool all = true;
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    const auto stages = static_cast<int>(clusters[c].size());
    for (int stage = 0; stage < stages; ++stage) {
      const auto at = static_cast<std::size_t>(stage);
      const int first = cuts[c]->begins[at];
      const int last = stage + 1 < stages ? cuts[c]->begins[at + 1] : costs.count();
      const int slots = costs.slots(stage, stages);
      const std::int64_t bytes = costs.measured_memory(first, last, slots, cuts[c]->recompute[at]);
      all = all && static_cast<double>(bytes) <= model.ram_bytes(clusters[c][at]);
    }
  }
  return all;
}

}  // namespace

std::string weights_digest(const StateDict& state) {
  Digest digest;
  for (const auto& [name, tensor] : state) {
    digest.add(name + tensor.type().to_string());
    digest.add(tensor.view().bytes());
  }
  return digest.text();
}

ModelCosts model_costs(const TrainingTask& task, const NodePool& pool) {
  return model_costs(task.graph, task.settings, task.data, task.kernels,
                     task.profile ? &*task.profile : nullptr, most_segments(task, pool));
}

Planned make_plan(const TrainingTask& task, const NodePool& pool, const SearchOptions& options) {
  return make_plan(task, pool, model_costs(task, pool), options);
}

Planned make_plan(const TrainingTask& task, const NodePool& pool, const ModelCosts& known_costs,
                  const SearchOptions& options) {
  ModelCosts costs = known_costs;
  std::set<int> pinned;
  for (const auto& [node, pin] : options.pins) pinned.insert(node);
  std::optional<CostModel> search;
  const TimeLimit limit(options.seconds);
  const auto find = [&] {
    search.emplace(pool, costs, pinned);
    SearchOptions within = options;
    within.seconds = limit.left();
    return find_clusters(*search, within);
  };
  Grouping grouping;
  Throughput predicted;
  do {
    try {
      grouping = find();
    } catch (const ConfigError&) {
      if (!costs.measured_memory) throw;
      // By estimates, which are rather too high, nothing fits.
      measure_memory(costs);
      grouping = find();
    }
    predicted = refined_throughput(*search, grouping.clusters);
  } while (!fits(*search, grouping.clusters, predicted.cuts));
  const CostModel& model = *search;

  Planned planned;
  ClusterPlan& plan = planned.plan;
  plan.objective = name_of(options.objective);
  plan.model = task.settings.model;
  plan.batch_size = task.settings.batch_size;
  plan.micro_batches = costs.micro_batches;
  plan.schedule = task.settings.schedule;
  plan.seed = options.seed;
  for (std::size_t c = 0; c < grouping.clusters.size(); ++c) {
    const InnerCut& inner = *predicted.cuts[c];
    planned.stages.push_back(cut(task.graph, op_begins(costs, inner)));
    plan.clusters.push_back(plan_cluster(task, model, grouping.clusters[c], inner, planned.stages.back()));
    plan.clusters.back().id = static_cast<int>(c);
    planned.cuts.push_back(inner);
  }
  planned.members = grouping.clusters;
  double longest = predicted.averaging_seconds;
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    const double step = simulated_step_seconds(task, pool, planned, c);
    plan.clusters[c].simulated_step_ms = 1e3 * step;
    longest = std::max(longest, step + predicted.averaging_seconds);
  }
  plan.simulated_samples_per_second =
      static_cast<double>(plan.batch_size) * static_cast<double>(plan.clusters.size()) / longest;
  plan.rings = make_rings(task.graph, planned.stages);
  const std::vector<std::string> reasons =
      reasons_to_leave_out(model, options, grouping.clusters, predicted, grouping.left_out);
  for (std::size_t i = 0; i < reasons.size(); ++i)
    plan.left_out.push_back(
        {node_name(pool.nodes()[static_cast<std::size_t>(grouping.left_out[i])]), reasons[i]});
  plan.predicted_averaging_ms = 1e3 * predicted.averaging_seconds;
  plan.predicted_samples_per_second = predicted.samples_per_second;
  plan.bound_samples_per_second = model.bound_samples_per_second();
  plan.plan_id = plan_digest(task, pool, plan);
  return planned;
}

NodeMetadata make_metadata(const TrainingTask& task, const Planned& planned, int cluster, int stage) {
  const ClusterPlan& plan = planned.plan;
  const auto peer = [&](int of_cluster, int of_stage) {
    const PlannedStage& other =
        plan.clusters[static_cast<std::size_t>(of_cluster)].stages[static_cast<std::size_t>(of_stage)];
    return PeerInfo{other.node, other.address, of_stage};
  };
  const auto clusters = static_cast<int>(plan.clusters.size());
  const PlannedCluster& own = plan.clusters[static_cast<std::size_t>(cluster)];
  const PlannedStage& self = own.stages[static_cast<std::size_t>(stage)];
  const Stage& part = planned.stages[static_cast<std::size_t>(cluster)][static_cast<std::size_t>(stage)];

  NodeMetadata metadata{.node = self.node,
                        .address = self.address,
                        .plan_id = plan.plan_id,
                        .cluster = cluster,
                        .clusters = clusters,
                        .stage = stage,
                        .stages = part.count,
                        .inputs = part.inputs,
                        .outputs = part.outputs,
                        .shared = part.shared,
                        .recompute = self.recompute,
                        .prediction = self.prediction,
                        .predicted_step_ms = own.simulated_step_ms,
                        .settings = task.settings,
                        .data = task.data};
  for (int i = 0; i < part.count; ++i) metadata.members.push_back(peer(cluster, i));
  for (const Ring& ring : plan.rings) {
    if (ring.stages[static_cast<std::size_t>(cluster)] != stage) continue;
    metadata.rings[ring.id] = ring.parameters.front();
    for (int c = 0; c < clusters; ++c)
      metadata.ring_peers[ring.id].push_back(peer(c, ring.stages[static_cast<std::size_t>(c)]));
  }
  for (const auto& entry : task.kernels) {
    if (part.graph.has_op(chosen_op(task.graph, entry.first))) metadata.kernels.insert(entry);
  }
  return metadata;
}

}  // namespace rookery
