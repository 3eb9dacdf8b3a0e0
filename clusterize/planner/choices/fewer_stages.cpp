#include "clusterize/planner/choices/fewer_stages.hpp"

#include "clusterize/planner/planner.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {

std::optional<std::string> fewer_stages(const TrainingTask& task, const NodePool& pool,
                                        const SearchOptions& options, const Planned& planned) {
  constexpr double kLeastGain = 1.05;
  if (planned.members == planned.machines || options.seconds) return std::nullopt;
  const std::string& schedule = planned.costs.schedule.name;  // by which clusters were searched
  TrainingTask other{.graph = task.graph,
                     .settings = task.settings,
                     .data = task.data,
                     .kernels = task.kernels,
                     .profile = task.profile};
  other.settings.schedule.name = schedule;
  other.settings.schedule.chunks.reset();
  SearchOptions quiet = options;
  quiet.progress = nullptr;
  quiet.explains = false;
  try {
    const double own = planned.plan.simulated_samples_per_second;
    const double reached = make_plan(other, pool, quiet).plan.simulated_samples_per_second;
    if (reached < kLeastGain * own) return std::nullopt;
    return fmt::format(
        "\"schedule\": \"{}\" trains {} samples/s, simulated, and \"{}\", with one stage on each machine, "
        "would train {}",
        task.settings.schedule.name, rate_text(own), schedule, rate_text(reached));
  } catch (const ConfigError&) {  // with one stage each they do not fit
    return std::nullopt;
  }
}

}  // namespace rookery
