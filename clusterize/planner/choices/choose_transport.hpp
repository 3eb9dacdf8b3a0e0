// Decides on which links of a cluster values and gradients travel in fewer bits, where train.json leaves that
// to the planner (`"transport": {"activations": "auto", "gradients": "auto"}`).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/pool/node_pool.hpp"

namespace rookery {

// What may be chosen, the mildest first.
const std::vector<std::string>& possible_activations();
const std::vector<std::string>& possible_gradients();
// The last of them for what is left open.
TransportSettings strongest_transport(const TransportSettings& asked);

// The cluster's links, each with its `transport` as chosen. What is left open is none on all of them, unless
// the simulated step is shorter by kLeastTransportGain with the strongest everywhere; then on one link after
// the other it is the mildest with which the step is hardly longer than that. So a link that does not hold
// the plan back is none, and no choice makes the step longer than none does. `planned` is as before
// afterwards.
std::vector<PlannedLink> choose_transport(const TrainingTask& task, const NodePool& pool, Planned& planned,
                                          std::size_t cluster);
constexpr double kLeastTransportGain = 0.02;  // of a step, for what rounding loses

}  // namespace rookery
