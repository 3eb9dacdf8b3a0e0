// A stage's graph with its gradients, as passes/differentiate.hpp makes it: forward ops first, then those of
// two backward phases.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

enum class Phase : std::uint8_t { kForward, kBackwardInputs, kBackwardWeights };

struct TrainingGraph {
  Graph graph;                // the forward ops in training form, then those of the two backward phases
  std::vector<Phase> phases;  // by OpId
  // Parameter -> the gradients of the ops that use it, from the last to the first.
  std::map<ValueId, std::vector<ValueId>> parameter_gradients;
  // Of these parameters, those that change in backward, as soon as nothing reads them any more
  // (passes/memory/updates_in_backward.hpp).
  std::set<ValueId> updated_in_backward;
  std::map<ValueId, ValueId> sent_gradients;      // stage input -> gradient to send upstream
  std::map<ValueId, ValueId> received_gradients;  // value -> gradient that comes from downstream
};

// The gradients that differentiate() is asked for, beside those of parameters.
struct GradientRequest {
  std::set<ValueId> inputs;    // stage inputs whose gradient somebody upstream wants
  std::set<ValueId> received;  // values (stage outputs or inputs) whose partial gradient arrives
};

}  // namespace rookery
