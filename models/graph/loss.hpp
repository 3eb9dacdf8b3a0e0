// Losses are ops of the last stage's graph.
#pragma once

#include <string>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

constexpr const char* kLabels = "labels";         // i64[batch], input of the loss
constexpr const char* kSampleIds = "sample_ids";  // i64[batch], travels with the labels
constexpr const char* kLoss = "loss";             // f32[], mean over the micro-batch

// "mse", "cross_entropy"
const std::vector<std::string>& loss_names();

// Appends the loss of the graph's only output to a graph that ends a model: inputs `labels` and
// `sample_ids`, output `loss`. The model's own output stays an output. ConfigError for an unknown
// name or a graph with several outputs.
void add_loss(Graph& graph, const std::string& name);

}  // namespace rookery
