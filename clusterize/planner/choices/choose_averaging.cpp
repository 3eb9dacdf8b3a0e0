#include "clusterize/planner/choices/choose_averaging.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "clusterize/planner/planner.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

constexpr double kLittle = 0.1;          // of the time: what averaging may always take
constexpr double kLeastOfSamples = 0.5;  // of those a second that rare rounds allow

double step_seconds_of(const ClusterPlan& plan) {
  return std::ranges::max(plan.clusters, {}, &PlannedCluster::predicted_step_ms).predicted_step_ms / 1e3;
}

// That averaging takes.
double share_of_time(const ClusterPlan& plan) {
  const double averaging = plan.predicted_averaging_ms / 1e3;
  return averaging / (averaging + step_seconds_of(plan));
}

AveragingCandidate candidate(const ClusterPlan& plan) {
  return {.averaging = plan.averaging,
          .clusters = static_cast<int>(plan.clusters.size()),
          .samples_per_second = plan.predicted_samples_per_second,
          .step_ms = 1e3 * step_seconds_of(plan),
          .averaging_ms = plan.predicted_averaging_ms,
          .round_ms = plan.predicted_round_ms};
}

std::string text_of(const AveragingCandidate& of) {
  if (of.clusters == 1) return fmt::format("{} samples/s of one cluster", rate_text(of.samples_per_second));
  return fmt::format("{} a step beside {} of training, {} samples/s", duration_text(of.averaging_ms / 1e3),
                     duration_text(of.step_ms / 1e3), rate_text(of.samples_per_second));
}

class Chooser {
 public:
  Chooser(TrainingTask& task, const NodePool& pool, const SearchOptions& options)
      : task_(task), pool_(pool), options_(options), asked_(task.settings.averaging) {
    if (options_.seconds) *options_.seconds /= 3;  // of as many searches
  }

  Planned run() {
    Planned often = plan_with("gradients", std::nullopt);
    const bool is_alone = often.plan.clusters.size() == 1;
    if (is_alone && (pool_.size() == 1 || options_.clusters || options_.objective == Objective::kLatency))
      return often;
    if (!is_alone && share_of_time(often.plan) <= kLittle) {
      often.plan.averaging_choice = {.reason = "gradients of every step are averaged in little of the time",
                                     .gradients = candidate(often.plan)};
      return often;
    }
    Planned rarely = plan_rarely();
    if (rarely.plan.clusters.size() == 1) return chosen(std::move(often));
    AveragingChoice choice{.gradients = candidate(often.plan), .parameters = candidate(rarely.plan)};
    const bool is_often =
        choice.gradients.samples_per_second >= kLeastOfSamples * choice.parameters->samples_per_second;
    choice.reason =
        fmt::format("gradients of every step: {}; parameters every {} steps: {}", text_of(choice.gradients),
                    *choice.parameters->averaging.every, text_of(*choice.parameters));
    Planned best = chosen(std::move(is_often ? often : rarely));
    best.plan.averaging_choice = std::move(choice);
    return best;
  }

 private:
  Planned plan_with(const std::string& mode, std::optional<std::int64_t> every) {
    task_.settings.averaging = asked_;
    task_.settings.averaging.mode = mode;
    task_.settings.averaging.every = every;
    return make_plan(task_, pool_, options_);
  }

  // As often as takes little of the time of the plan that has the rarest rounds.
  Planned plan_rarely() {
    Planned rarest = plan_with("parameters", std::nullopt);
    if (rarest.plan.clusters.size() == 1) return rarest;
    const std::int64_t epoch = batches_per_epoch(shares_of(rarest.plan, 0).joint(), task_.data.train_samples);
    const double rounds = rarest.plan.predicted_round_ms / 1e3 / step_seconds_of(rarest.plan);
    const double every = std::ceil(rounds * (1 - kLittle) / kLittle);
    return plan_with("parameters",
                     static_cast<std::int64_t>(std::clamp(every, 1.0, static_cast<double>(epoch))));
  }

  // The settings are those of this plan.
  Planned chosen(Planned planned) {
    task_.settings.averaging = planned.plan.averaging;
    return planned;
  }

  TrainingTask& task_;  // both of the caller
  const NodePool& pool_;
  SearchOptions options_;
  const AveragingSettings asked_;
};

}  // namespace

Planned plan_with_averaging(TrainingTask& task, const NodePool& pool, const SearchOptions& options) {
  if (task.settings.averaging.mode != "auto") return make_plan(task, pool, options);
  return Chooser(task, pool, options).run();
}

}  // namespace rookery
