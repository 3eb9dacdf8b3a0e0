// What a simulation found, for people and for scripts.
#pragma once

#include <string>

#include "clusterize/simulation.hpp"
#include "models/base/files/json_file.hpp"

namespace rookery {

std::string describe_simulation(const Simulation& simulation, const SimulationOptions& options,
                                const TrainingSettings& settings);
OrderedJson to_json(const Simulation& simulation, const SimulationOptions& options);

// "1 d 2 h", "3 h 20 min", "4 min 5 s", "7.32 s", "12.5 ms"
std::string duration_text(double seconds);

}  // namespace rookery
