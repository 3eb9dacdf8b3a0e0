// Reverse-mode differentiation of a stage's graph. Gradients of inputs and gradients of weights are
// kept apart, so that the first can be sent upstream before the second are computed ("Zero Bubble
// Pipeline Parallelism", arXiv 2401.10241).
//
// A value used by several ops gets the sum of their gradients, added one by one from the last user
// to the first. Where users lie on several stages the partial sum travels along the same order, so
// that every cut adds the same numbers in the same order. The gradients of a parameter are not added
// here, but for those within one op: each user's accumulates over the micro-batches of a step by
// itself, and they are added when the step ends, as users on other stages have to be.
#pragma once

#include "models/graph/training_graph.hpp"

namespace rookery {

// `forward` must end in a loss op or have its gradient arrive through request.received; ConfigError
// when the gradient of a requested input does not exist.
TrainingGraph differentiate(const Graph& forward, const GradientRequest& request);

// The same with gradients of weights in the phase of those of inputs, each next to the others of its op:
// less is alive at a time. For stages that send no gradients, so that nobody waits.
TrainingGraph in_one_backward_phase(TrainingGraph training);

}  // namespace rookery
