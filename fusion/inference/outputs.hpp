// The outputs that a model makes of samples.
#pragma once

#include <cstdint>
#include <span>

#include "models/graph/state/state_dict.hpp"
#include "trainer/data/dataset.hpp"

namespace rookery {

// Every output of `model` (without losses) by the name of its value, for the samples `ids` in their order
// along the first dimension; dropout off and running statistics fixed, `batch` samples at a time. `loss` says
// which tensors of the data set are targets. ConfigError for outputs that have no row per sample, or for
// inputs that the data set does not have.
StateDict model_outputs(const Graph& model, const StateDict& state, const Dataset& dataset,
                        const LossSettings& loss, std::span<const std::int64_t> ids, std::int64_t batch);

}  // namespace rookery
