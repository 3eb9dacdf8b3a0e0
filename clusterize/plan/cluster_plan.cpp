#include "clusterize/plan/cluster_plan.hpp"

#include <nlohmann/json.hpp>

#include "clusterize/plan/prediction_json.hpp"

namespace rookery {
namespace {

OrderedJson to_json(const PlannedStage& stage, int index, int stages) {
  return {{"node", stage.node},
          {"address", stage.address},
          {"stage", index},
          {"role", role_of(index, stages)},
          {"ops", stage.ops},
          {"parameters", stage.parameters},
          {"recompute", stage.recompute},
          {"prediction", to_json(stage.prediction)}};
}

OrderedJson to_json(const PlannedCluster& cluster) {
  OrderedJson stages = OrderedJson::array();
  const int count = static_cast<int>(cluster.stages.size());
  for (int stage = 0; stage < count; ++stage)
    stages.push_back(to_json(cluster.stages[static_cast<std::size_t>(stage)], stage, count));
  return {{"id", cluster.id}, {"predicted_step_ms", cluster.predicted_step_ms}, {"stages", stages}};
}

}  // namespace

OrderedJson to_json(const ClusterPlan& plan) {
  OrderedJson clusters = OrderedJson::array();
  for (const PlannedCluster& cluster : plan.clusters) clusters.push_back(to_json(cluster));
  OrderedJson rings = OrderedJson::array();
  for (const Ring& ring : plan.rings)
    rings.push_back({{"id", ring.id}, {"stages", ring.stages}, {"parameters", ring.parameters}});
  return {{"format", "rookery.plan"},
          {"version", 1},
          {"plan_id", plan.plan_id},
          {"objective", plan.objective},
          {"predicted_samples_per_second", plan.predicted_samples_per_second},
          {"bound_samples_per_second", plan.bound_samples_per_second},
          {"clusters", clusters},
          {"rings", rings},
          {"left_out", plan.left_out}};
}

std::string role_of(int stage, int stages) {
  if (stages == 1) return "root_leaf";
  return stage == 0 ? "root" : stage == stages - 1 ? "leaf" : "stem";
}

}  // namespace rookery
