// Clusters of nodes of this machine, cut where the test says.
#pragma once

#include <string>
#include <vector>

#include "clusterize/order/rings.hpp"
#include "clusterize/planner/make_metadata.hpp"
#include "models/base/libraries/format.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "tests/support/free_ports.hpp"

namespace rookery {

// Nodes are numbered through, cluster by cluster. `begins`: by cluster, the first op of each stage.
inline Planned planned_clusters(const TrainingTask& task, const std::vector<std::vector<OpId>>& begins) {
  Planned planned;
  planned.plan.plan_id = "0123456789abcdef";
  planned.plan.batch_size = task.settings.batch_size;
  std::size_t nodes = 0;
  for (const std::vector<OpId>& of_cluster : begins) nodes += of_cluster.size();
  const std::vector<int> ports = free_ports(static_cast<int>(nodes));
  std::size_t node = 0;
  for (const std::vector<OpId>& of_cluster : begins) {
    planned.stages.push_back(cut(task.graph, of_cluster));
    PlannedCluster& cluster = planned.plan.clusters.emplace_back();
    cluster.share = task.settings.batch_size;
    for (std::size_t stage = 0; stage < of_cluster.size(); ++stage, ++node) {
      PlannedStage& made = cluster.stages.emplace_back();
      made.node = fmt::format("node_{}", node);
      made.address = fmt::format("127.0.0.1:{}", ports[node]);
    }
  }
  planned.plan.rings = make_rings(planned.stages);
  return planned;
}

}  // namespace rookery
