// The arguments of clusterize about simulating a plan.
#pragma once

#include "clusterize/simulation/simulation.hpp"
#include "models/base/process/program.hpp"

namespace rookery {

void add_simulation_options(ProgramOptions& options);

// Nothing without --simulate. UsageError for values out of range, and for options that need --simulate.
std::optional<SimulationOptions> simulation_options(const ProgramArguments& arguments, std::uint64_t seed);

}  // namespace rookery
