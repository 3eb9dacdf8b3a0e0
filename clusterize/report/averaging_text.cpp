#include "clusterize/report/averaging_text.hpp"

#include <algorithm>

#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

std::string steps_text(std::int64_t steps) {
  return steps == 1 ? "step" : fmt::format("{} steps", steps);
}

}  // namespace

std::string averaging_text(const AveragingSettings& averaging) {
  const std::string as = averaging.compression == "none" ? "" : " as " + averaging.compression;
  if (averaging.mode == "gradients") return "gradients of every step" + as;
  std::string text = averaging.mode == "diloco" ? "parameters by diloco" : "parameters";
  if (averaging.optimizer) text += " and the optimizer's state";
  text += averaging.every ? " every " + steps_text(*averaging.every) : " every epoch";
  if (averaging.fragments > 1) text += fmt::format(" in {} fragments", averaging.fragments);
  text += as;
  const std::int64_t beside = averaging.overlapped_updates();
  return beside == 0 ? text : text + ", beside the next " + steps_text(beside);
}

std::string describe_averaging(const ClusterPlan& plan) {
  std::string text;
  if (plan.clusters.size() > 1) {
    const double step =
        std::ranges::max(plan.clusters, {}, &PlannedCluster::simulated_step_ms).simulated_step_ms;
    const double waits = plan.predicted_averaging_ms;
    text += fmt::format(
        "Averages {}: a round takes {}, for which a step of {} waits {} on the average ({} of the "
        "time)\n",
        averaging_text(plan.averaging), duration_text(plan.predicted_round_ms / 1e3),
        duration_text(step / 1e3), duration_text(waits / 1e3), percent_text(waits / (step + waits)));
  }
  if (plan.averaging_choice) text += fmt::format("Chosen, because: {}\n", plan.averaging_choice->reason);
  return text;
}

}  // namespace rookery
