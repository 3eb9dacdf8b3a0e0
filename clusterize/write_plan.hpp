// Puts a plan on the disk.
#pragma once

#include <filesystem>
#include <string>

#include "clusterize/planner.hpp"

namespace rookery {

// 32 hexadecimal digits that nobody can compute from the plan: NodeMetadata::token.
std::string draw_token();

// Writes plan.json, nodes/ and cluster_C/ into `node_data` in place of those of an older plan, whose
// trained weights go with it. All is written beside first: when that fails the older plan stays as
// it was. All nodes get the same `token`. DataError naming the file.
void write_plan(const std::filesystem::path& node_data, const TrainingTask& task, const Planned& planned,
                const StateDict& state, const std::string& token = draw_token());

// Does `node_data` hold this very plan, with the files of all its nodes?
bool holds_plan(const std::filesystem::path& node_data, const ClusterPlan& plan);

}  // namespace rookery
