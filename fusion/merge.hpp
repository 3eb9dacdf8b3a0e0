// Puts the trained submodels of a cluster together again; of several clusters, checks that they agree.
#pragma once

#include <filesystem>

#include "fusion/fused_model.hpp"

namespace rookery {

// Reads the submodel of every node of the cluster, and checks that together they are the model of
// the plan in `node_data`, whole and at one step. ConfigError when there is no such plan or
// cluster; else DataError listing everything that is wrong, by node and tensor: submodels that are
// missing, broken, of another plan, or of different age; tensors that are missing, there twice, or
// of another type than the model's.
FusedModel fuse_cluster(const std::filesystem::path& node_data, int cluster);
// The same of all clusters of the plan, which hold one model when their run has ended: cluster 0's, once it
// was found that every other cluster has the same bits at the same step, but for counters.
FusedModel fuse_clusters(const std::filesystem::path& node_data);
// The first for a model of one's own, which was planned without a name that stands for it.
FusedModel fuse_cluster(const std::filesystem::path& node_data, int cluster, Graph model);

}  // namespace rookery
