// Which operators let the samples of a batch act on each other.
#pragma once

#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

// The ops, in the graph's order, whose result for a sample depends on others of its batch, so that it is
// another where a batch is cut into micro-batches or shared by clusters: a mean over the batch, a softmax, a
// sum or a recurrent layer along it, products of samples with each other. Not BatchNormalization, whose
// statistics are known for it (uses_batch_statistics()), and not the losses.
//
// Known by shapes: of what depends on the batch's size something comes that does not, or depends on it twice;
// or the op runs along a dimension that does. What merely moves samples, as a reversed batch, is not found.
std::vector<OpId> mixing_ops(const Graph& graph);

}  // namespace rookery
