// Puts a plan on the disk.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/training_task.hpp"
#include "models/graph/state/state_dict.hpp"

namespace rookery {

// 32 hexadecimal digits that nobody can compute from the plan: NodeMetadata::token.
std::string draw_token();

// Writes plan.json, nodes/ and cluster_C/ into `node_data` in place of those of an older plan. Where the
// older one's stages hold what clusterize did not write, trained weights above all, it is kept as a whole in
// node_data/kept/<plan id>, or <plan id>.2 and so on; the answer names these folders. Trained weights of this
// very plan stay in their place. All nodes get the same `token`. All is written beside first: when that fails
// the older plan stays as it was. DataError naming the file; ConfigError while providers run the older plan.
std::vector<std::filesystem::path> write_plan(const std::filesystem::path& node_data,
                                              const TrainingTask& task, const Planned& planned,
                                              const StateDict& state,
                                              const std::string& token = draw_token());

// Does `node_data` hold this very plan, with the files of all its nodes and stages?
bool holds_plan(const std::filesystem::path& node_data, const ClusterPlan& plan);

}  // namespace rookery
