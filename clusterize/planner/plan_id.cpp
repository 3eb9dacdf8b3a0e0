#include "clusterize/planner/plan_id.hpp"

#include "models/base/fnv.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

// As 16 hex digits.
std::string text_of(const Fnv1a& digest) {
  return fmt::format("{:016x}", digest.value());
}

OrderedJson to_json(const PoolNode& node) {
  OrderedJson all = {{"id", node.id},
                     {"address", node.address},
                     {"ram", node.ram_gb},
                     {"bandwidth", node.bandwidth_mbps},
                     {"gflops", node.gflops.value_or(0)},
                     {"transfer_gbps", node.transfer_gbps.value_or(0)},
                     {"region", node.region}};
  if (node.threads.value_or(1) != 1) all["threads"] = *node.threads;
  if (!node.reachable) all["reachable"] = false;
  return all;
}

// By cluster and stage; empty where all have what they have without a choice.
OrderedJson chosen_in_flight(const ClusterPlan& plan) {
  OrderedJson all = OrderedJson::array();
  bool is_chosen = false;
  for (const PlannedCluster& cluster : plan.clusters) {
    const auto stages = static_cast<int>(cluster.stages.size());
    OrderedJson own = OrderedJson::array();
    for (int stage = 0; stage < stages; ++stage) {
      const int in_flight = cluster.stages[static_cast<std::size_t>(stage)].in_flight;
      own.push_back(in_flight);
      is_chosen |= in_flight != rookery::in_flight(plan.schedule, stage, stages, plan.micro_batches);
    }
    all.push_back(own);
  }
  return is_chosen ? all : OrderedJson();
}

// By cluster and link, where that was left to the planner.
OrderedJson chosen_transport(const ClusterPlan& plan) {
  OrderedJson all = OrderedJson::array();
  for (const PlannedCluster& cluster : plan.clusters) {
    OrderedJson links = OrderedJson::array();
    for (const PlannedLink& link : cluster.links)
      links.push_back({link.from, link.to, link.transport.activations, link.transport.gradients});
    all.push_back(links);
  }
  return all;
}

}  // namespace

std::string plan_id_of(const TrainingTask& task, const NodePool& pool, const ClusterPlan& plan) {
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
  if (task.data.digest != 0) all["data"].push_back(task.data.digest);
  if (!task.weights.empty()) all["weights"] = task.weights;
  if (const OrderedJson chosen = chosen_in_flight(plan); !chosen.empty()) all["in_flight"] = chosen;
  if (is_auto(task.settings.transport)) all["transport"] = chosen_transport(plan);
  if (plan.clusters.size() > 1) all["shares"] = shares_of(plan, 0).samples;
  for (const auto& [pair, count] : plan.connections)
    all["connections"].push_back({pair.first, pair.second, count});
  for (const Ring& ring : plan.rings)
    if (ring.under_way) all["under_way"].push_back({ring.id, *ring.under_way});
  if (task.resume) all["resume"] = to_json(*task.resume);
  Fnv1a digest;
  digest.add(all.dump());
  return text_of(digest);
}

std::string weights_digest(const StateDict& state) {
  Fnv1a digest;
  for (const auto& [name, tensor] : state) {
    digest.add(name + tensor.type().to_string());
    digest.add(tensor.view().bytes());
  }
  return text_of(digest);
}

}  // namespace rookery
