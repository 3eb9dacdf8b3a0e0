// A data set whose images are augmented.
#pragma once

#include <memory>
#include <vector>

#include "trainer/data/augment/augment.hpp"
#include "trainer/data/dataset.hpp"

namespace rookery {

// The same data set where there are no steps. The steps change its tensor "input", f32[batch, channels,
// height, width]; what they draw is a function of the seed, the epoch, the sample, the step and its place in
// the list. gather() does only what is not random. ConfigError, naming a step, where that can do nothing with
// the images.
std::unique_ptr<Dataset> augmented(std::unique_ptr<Dataset> dataset, const std::vector<AugmentStep>& steps);
// Of one that outlives what comes of it.
std::unique_ptr<Dataset> augmented(const Dataset& dataset, const std::vector<AugmentStep>& steps);

}  // namespace rookery
