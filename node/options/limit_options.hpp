// The options --limit-mbps and --add-latency-ms, which several commands have.
#pragma once

#include <string>
#include <vector>

#include "models/base/process/program.hpp"
#include "node/transport/slow_network.hpp"

namespace rookery {

void add_limit_options(ProgramOptions& options);

// What was given. UsageError for what no network can have.
NetworkLimits limits_of(const ProgramArguments& arguments);

// The same as arguments of a provider.
std::vector<std::string> limit_arguments(const NetworkLimits& limits);

}  // namespace rookery
