// These functions tell people and scripts what a simulation found.
#pragma once

#include <string>

#include "clusterize/simulation/simulation.hpp"
#include "models/base/files/json_file.hpp"

namespace rookery {

std::string describe_simulation(const Simulation& simulation, const SimulationOptions& options,
                                const TrainingSettings& settings);
OrderedJson to_json(const Simulation& simulation, const SimulationOptions& options);

}  // namespace rookery
