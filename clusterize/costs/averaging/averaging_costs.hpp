// The time that the averaging of several clusters adds to their steps.
//
// Rounds that all wait for (RoundRate::waited) add all that they take. A round that runs beside the next
// steps adds what it is longer than these.
#pragma once

#include <functional>

#include "models/graph/graph.hpp"
#include "trainer/averaging/round_schedule.hpp"
#include "trainer/settings/batch_sizes.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

struct AveragingCosts {
  // For so many clusters, all of which train batch_size samples of a step.
  std::function<RoundRate(int clusters)> rate = [](int /*clusters*/) { return RoundRate{.waited = 1}; };
  // That a round carries for each byte of parameters: fewer with compression, more with buffers and the
  // optimizer's state.
  double bytes_per_byte = 1;
};

AveragingCosts averaging_costs(const Graph& graph, const TrainingSettings& settings, const DataSizes& data);

// Seconds of a round of the whole model, and of one of a fragment.
struct RoundSeconds {
  double whole = 0;
  double fragment = 0;
};

// The time that such rounds add to a step of `step_seconds`, on the average. With it a step becomes no
// shorter where it or a round becomes longer, or rounds come more often.
double exposed_seconds(const RoundRate& rate, const RoundSeconds& round, double step_seconds);
// The time of a round, on the average over those of the whole model and those of a fragment.
double mean_seconds(const RoundRate& rate, const RoundSeconds& round);

}  // namespace rookery
