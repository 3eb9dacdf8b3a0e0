// provider_N: the program `provider` under the name of the node that it is to be.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "clusterize/plan/cluster_plan.hpp"

namespace rookery {

struct ProviderSymlinks {
  // As they are typed in this shell and folder: by name where $PATH finds them, else with a path.
  std::string provider, launch;
  std::vector<std::string> symlinks;  // one a machine
  std::string problem;                // why there are none, in words for the user; empty when all are there
};

// Of the plan's machines, by cluster and first stage: each has one provider, however many stages it has.
std::vector<std::string> machine_ids(const ClusterPlan& plan);

// Makes symbolic links provider_<id> to `programs`/provider: beside it where that is a build folder of the
// user's, otherwise (installed programs, a folder that cannot be written to) in `working`, the working
// directory. Replaces links to a provider, but nothing else.
ProviderSymlinks make_provider_symlinks(const std::filesystem::path& programs,
                                        const std::filesystem::path& working,
                                        const std::vector<std::string>& ids);

// "Start each node's provider with provider_0, provider_1 (…), or all of them on this machine with launch."
std::string how_to_start(const ProviderSymlinks& made);

// The folder of the running program.
std::filesystem::path program_folder();

}  // namespace rookery
