// What is set against gradients of weights that so many updates of earlier batches have changed since, in the
// mean of micro-batches. Pure functions; bench/stale_gradients.py measures what comes of them.
#pragma once

#include <algorithm>

namespace rookery {

// Forwards use the weights as they will be after so many more updates like the last: those that come before
// the micro-batch's own (SpecTrain, arXiv 1809.02839), and more, since the gradient of where weights would go
// on to calms what they swing about, as Nesterov's does (arXiv 2505.01099).
inline double predicted_updates(double staleness) {
  return 2 * (staleness + std::min(staleness, 1.0));
}

// Adam's mean of gradients goes over so many times as many updates: the longer it is, the more the last
// update says about the next.
inline double times_the_mean(double staleness) {
  return 1 + 2 * std::min(staleness, 2.0);
}

}  // namespace rookery
