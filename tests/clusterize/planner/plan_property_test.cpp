// What holds of every plan, whatever the pool, the settings and the constraints.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/planner/make_metadata.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/named_rows.hpp"
#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

Json random_pool() {
  Json pool = Json::object();
  const int nodes = *rc::gen::inRange(1, 7);
  const double memory = *rc::gen::element(1.0, 2e-3);  // GB; cnn_net takes about that
  for (int i = 0; i < nodes; ++i) {
    Json node = node_json(8080 + i, memory * *rc::gen::element(1, 2, 4), *rc::gen::element(10, 100, 1000));
    node["benchmarks"]["gflops"] = *rc::gen::element(1, 10, 50);
    node["region"] = *rc::gen::element(std::string("A"), std::string("B"));
    pool[std::to_string(i)] = node;
  }
  pool["network"] = Json::parse(R"({"default": {"latency_ms": 0.1, "bandwidth_mbps": 1000},
      "regions": [{"between": ["A", "B"], "latency_ms": 20, "bandwidth_mbps": 50}]})");
  return pool;
}

TrainingTask random_task() {
  TrainingSettings settings;
  settings.batch_size = *rc::gen::element(8, 64);
  settings.schedule.name = *rc::gen::elementOf(names_of(schedule_kinds()));
  settings.micro_batches = *rc::gen::element(1, 2, 4);
  settings.recompute = *rc::gen::element(std::string("none"), std::string("auto"));
  return *rc::gen::arbitrary<bool>() ? cnn_task(settings) : tied_task();
}

// `machines`: their memory is that of all their stages.
void check_stages(const PlannedCluster& cluster, const TrainingTask& task, const NodePool& pool,
                  const NodePool& machines) {
  std::vector<OpId> ops;
  std::map<int, double> bytes;  // by machine
  for (const PlannedStage& stage : cluster.stages) {
    ops.insert(ops.end(), stage.ops.begin(), stage.ops.end());
    RC_ASSERT(!stage.ops.empty());
    const auto node = std::ranges::find_if(
        pool.nodes(), [&](const PoolNode& of_pool) { return "node_" + of_pool.id == stage.node; });
    RC_ASSERT(node != pool.nodes().end());
    const int machine = pool.machine(static_cast<int>(node - pool.nodes().begin()));
    bytes[machine] += static_cast<double>(stage.prediction.total_bytes());
  }
  for (const auto& [machine, all] : bytes) RC_ASSERT(all <= 1e9 * machines.node(machine).ram_gb);
  std::vector<OpId> all(task.graph.ops().size());
  std::iota(all.begin(), all.end(), 0);
  RC_ASSERT(ops == all);
}

// What one node sends, the other expects, and both name each other.
void check_peers(const Planned& planned, const TrainingTask& task) {
  std::map<std::pair<int, int>, NodeMetadata> all;
  for (const PlannedCluster& cluster : planned.plan.clusters) {
    for (int stage = 0; stage < static_cast<int>(cluster.stages.size()); ++stage)
      all[{cluster.id, stage}] = make_metadata(task, planned, cluster.id, stage);
  }
  for (const auto& [place, node] : all) {
    const auto cluster = place.first;
    RC_ASSERT(std::ssize(node.members) == node.stages);
    RC_ASSERT(node.members[place.second].node == node.node);
    for (const StageOutput& output : node.outputs) {
      for (const int to : output.to) {
        const auto& inputs = all.at({cluster, to}).inputs;
        const auto input = std::ranges::find(inputs, output.value, &StageInput::value);
        RC_ASSERT(input != inputs.end());
        RC_ASSERT(input->from == place.second);
      }
    }
    for (const StageInput& input : node.inputs) {
      if (input.from < 0) continue;
      const auto& outputs = all.at({cluster, input.from}).outputs;
      const auto output = std::ranges::find(outputs, input.value, &StageOutput::value);
      RC_ASSERT(output != outputs.end());
      RC_ASSERT(std::ranges::find(output->to, place.second) != output->to.end());
    }
    RC_ASSERT(node.roots.size() == (node.clusters == 1 ? 0 : planned.plan.clusters.size()));
    for (std::size_t c = 0; c < node.roots.size(); ++c)
      RC_ASSERT(node.roots[c] == all.at({static_cast<int>(c), 0}).members.front());
    for (const auto& [id, ring] : node.rings) {
      RC_ASSERT(node.clusters == 1 || id < node.ring_count);
      RC_ASSERT(ring.peers.size() == planned.plan.clusters.size());
      RC_ASSERT(ring.peers[cluster].node == node.node);
      for (std::size_t c = 0; c < ring.peers.size(); ++c)
        RC_ASSERT(all.at({static_cast<int>(c), ring.peers[c].stage}).rings.at(id) == ring);
    }
  }
}

// Memory is measured once for all numbers of threads, which takes most of the time; by one thread or by
// several.
RC_GTEST_PROP(EveryPlan, CoversTheModelWithinMemoryWithPeersThatAgreeAndIsTheSameForAnyNumberOfThreads, ()) {
  const NodePool pool = pool_of(random_pool());
  const TrainingTask task = random_task();
  SearchOptions options{.objective = *rc::gen::element(Objective::kSimilar, Objective::kThroughput),
                        .min_nodes = *rc::gen::inRange(1, 4),
                        .seed = *rc::gen::inRange<std::uint64_t>(0, 1000),
                        .threads = *rc::gen::element(1, 4)};
  const ModelCosts costs = model_costs(task, pool);
  Planned planned;
  try {
    planned = make_plan(task, pool, costs, options);
  } catch (const ConfigError&) {
    RC_DISCARD("does not fit");
  }
  RC_TAG(planned.plan.clusters.size());
  std::set<std::string> used;
  for (const PlannedCluster& cluster : planned.plan.clusters) {
    check_stages(cluster, task, planned.pool, pool);
    for (const PlannedStage& stage : cluster.stages) RC_ASSERT(used.insert(stage.node).second);
  }
  std::erase_if(used, [](const std::string& node) { return machine_of_node(node) != node; });
  RC_ASSERT(used.size() + planned.plan.left_out.size() == pool.nodes().size());
  check_peers(planned, task);
  const int first = options.threads;
  for (const int threads : {1, 2, 4}) {
    if (threads == first) continue;
    options.threads = threads;
    RC_ASSERT(to_json(make_plan(task, pool, costs, options).plan).dump() == to_json(planned.plan).dump());
  }
}

}  // namespace
}  // namespace rookery
