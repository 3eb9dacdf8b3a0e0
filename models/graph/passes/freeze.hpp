// Decides which parameters of a graph are trained.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

// Fixes the parameters whose names match one of `frozen`, then trains those that match one of `trained`,
// whatever they were before; names as in a shell: *, ?, [a-z]. `buffers` and the statistics of a
// BatchNormalization are no parameters and stay as they are. ConfigError for a pattern that matches nothing,
// naming what there is, and when nothing is left to train.
void choose_trained(Graph& graph, const std::vector<std::string>& frozen,
                    const std::vector<std::string>& trained, const std::set<std::string>& buffers);

// Fixes the parameters of a graph with losses that no gradient reaches: weight decay does not move them, as
// in PyTorch, where their gradients are None. ConfigError when nothing is left to train.
void freeze_unreached(Graph& graph);

}  // namespace rookery
