// provider_N: the program `provider` under the name of the node that it is to be.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rookery {

// Makes symbolic links provider_<id> -> provider in `folder`, replacing links but no other files.
// Returns why it could not, in words for the user; empty when all are there.
std::string make_provider_links(const std::filesystem::path& folder,
                                const std::vector<std::string>& node_ids);

// The folder of the running program.
std::filesystem::path program_folder();

}  // namespace rookery
