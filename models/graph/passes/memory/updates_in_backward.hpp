// Updates in backward: a parameter changes as soon as its gradient is there and nothing of the step reads it
// any more. Its gradient lives no longer than that, and is still in the cache. For steps of one micro-batch.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "models/graph/training_graph.hpp"

namespace rookery {

// Marks the parameters for which this pays: large ones that one op uses. Those `left_out`, by name, stay for
// the end of the step.
TrainingGraph with_updates_in_backward(TrainingGraph training, const std::set<std::string>& left_out);

// After this op nothing reads the parameter, and its gradient is there.
struct UpdateInBackward {
  ValueId parameter = kNoValue;
  ValueId gradient = kNoValue;
  OpId after = kNoOp;
};
std::vector<UpdateInBackward> updates_in_backward(const TrainingGraph& training);

}  // namespace rookery
