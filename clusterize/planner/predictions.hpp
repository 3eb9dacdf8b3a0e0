// Predicts the times and the memory of the stages and clusters of a plan.
#pragma once

#include <vector>

#include "clusterize/costs/throughput_model.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/plan/cluster_plan.hpp"
#include "models/graph/stage.hpp"

namespace rookery {

// Of a plan of so many clusters. `members`: nodes of the model's pool by stage; `stages`: the model cut as
// `partition` says. `in_flight`: by stage; empty: as without a choice. `links`: as chosen for the links of
// these stages; empty: as without a choice. ConfigError naming the node whose memory a stage exceeds.
PlannedCluster predicted_cluster(const TrainingTask& task, const ThroughputModel& model, std::size_t clusters,
                                 const std::vector<int>& members, const StagePartition& partition,
                                 const std::vector<Stage>& stages, const std::vector<int>& in_flight = {},
                                 const std::vector<PlannedLink>& links = {});

// ConfigError naming the node where its memory is less than the stage is predicted to need.
void check_fits(const PlannedStage& stage, const PoolNode& node);

}  // namespace rookery
