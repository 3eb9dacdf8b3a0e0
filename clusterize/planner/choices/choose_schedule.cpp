#include "clusterize/planner/choices/choose_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "clusterize/genetic/time_limit.hpp"
#include "clusterize/planner/choices/choose_averaging.hpp"
#include "clusterize/task/make_task.hpp"
#include "models/base/error.hpp"
#include "models/graph/ops/batch_norm.hpp"
#include "models/graph/passes/mixed_samples.hpp"
#include "trainer/schedule/schedule.hpp"
#include "trainer/settings/batch_sizes.hpp"

namespace rookery {
namespace {

// That or a divisor of the batch within a factor of √2: equal micro-batches are one kind.
std::int64_t nearest_divisor(std::int64_t power, std::int64_t batch) {
  std::int64_t nearest = power;
  double least = std::sqrt(2);
  for (std::int64_t number = 1; number <= std::min(2 * power, batch); ++number) {
    const double apart =
        static_cast<double>(std::max(number, power)) / static_cast<double>(std::min(number, power));
    if (batch % number != 0 || apart >= least) continue;
    nearest = number;
    least = apart;
  }
  return nearest;
}

// The schedules that give the bits of 1f1b, the simplest first: by the later ones machines have several
// stages.
std::vector<std::string> possible_schedules(const ScheduleSettings& asked) {
  if (asked.name != kAutoSchedule) return {asked.name};
  return {"1f1b", "zb", "interleaved", "zbv"};
}

// Searches with every second number of micro-batches, then beside the fastest until none there is faster.
class ScheduleChooser {
 public:
  ScheduleChooser(const TrainingTask& task, const NodePool& pool, const SearchOptions& options)
      : pool_(pool),
        options_(options),
        limit_(options.seconds ? std::optional(*options.seconds / 2) : std::nullopt),
        trial_{.graph = task.graph, .settings = task.settings, .data = task.data, .kernels = task.kernels},
        numbers_(task.settings.micro_batches ? std::vector{*task.settings.micro_batches}
                                             : possible_micro_batches(task.settings, task.graph)),
        schedules_(possible_schedules(task.settings.schedule)) {
    options_.explains = false;
    constexpr double kSearchesBeside = 6;
    if (limit_.left())
      options_.seconds = *limit_.left() / (static_cast<double>(numbers_.size() + 1) / 2 + kSearchesBeside);
  }

  ScheduleChoice run() {
    const int last = static_cast<int>(std::ssize(numbers_)) - 1;
    for (int number = 0; number <= last; number += 2) look_at({number, 0});
    for (int number = last; number >= 0 && !is_any_found(); --number) look_at({number, 0});
    if (!is_any_found()) look_longer_at({last, 0});
    for (Place at = fastest(), before{-1, -1}; at != before && !limit_.is_over();) {
      before = at;
      for (const Place& beside : places_beside(at)) look_at(beside);
      at = fastest();
    }
    for (Place at = chosen(), before{-1, -1}; at != before && !limit_.is_over();) {
      before = at;
      for (const Place& other : other_schedules(at)) look_at(other);
      at = chosen();
    }
    return choice();
  }

 private:
  using Place = std::pair<int, int>;  // in numbers_ and schedules_

  std::vector<Place> places_beside(const Place& at) const {
    std::vector<Place> all;
    for (const int number : {at.first - 1, at.first + 1})
      if (number >= 0 && number < std::ssize(numbers_)) all.emplace_back(number, at.second);
    std::ranges::copy(other_schedules(at), std::back_inserter(all));
    return all;
  }

  std::vector<Place> other_schedules(const Place& at) const {
    std::vector<Place> all;
    for (int schedule = 0; schedule < std::ssize(schedules_); ++schedule)
      if (schedule != at.second) all.emplace_back(at.first, schedule);
    return all;
  }

  void try_out(const Place& at) {
    TrainingSettings settings = asked_;
    settings.micro_batches = numbers_[static_cast<std::size_t>(at.first)];
    settings.schedule.name = schedules_[static_cast<std::size_t>(at.second)];
    trial_.settings = settings;
    if (!asked_.micro_batches) choose_kernels(trial_);
  }

  void look_at(const Place& at) {
    if (found_.contains(at) || (is_any_found() && limit_.is_over())) return;
    try_out(at);
    std::optional<ScheduleCandidate>& candidate = found_[at];
    try {
      const ClusterPlan plan = plan_with_averaging(trial_, pool_, options_).plan;
      if (has_enough_statistics(plan)) candidate = candidate_of(plan);
    } catch (const ConfigError&) {  // it stays empty
    }
  }

  // In all the time that is left; its ConfigError says why not even this one fits.
  void look_longer_at(const Place& at) {
    try_out(at);
    options_.explains = true;
    options_.seconds = limit_.left();
    found_[at] = candidate_of(plan_with_averaging(trial_, pool_, options_).plan);
  }

  // possible_micro_batches() knows whole batches alone, and clusters may train less.
  bool has_enough_statistics(const ClusterPlan& plan) const {
    const int number = *trial_.settings.micro_batches;
    if (asked_.micro_batches || number == 1 || !uses_batch_statistics(trial_.graph)) return true;
    return std::ranges::all_of(plan.clusters, [&](const PlannedCluster& cluster) {
      return micro_batch_size(cluster.share, number) >= kLeastStatistics;
    });
  }

  ScheduleCandidate candidate_of(const ClusterPlan& plan) const {
    const double step = std::ranges::max(plan.clusters, {}, &PlannedCluster::share_step_ms).share_step_ms;
    return {.micro_batches = *trial_.settings.micro_batches,
            .schedule = trial_.settings.schedule.name,
            .clusters = static_cast<int>(plan.clusters.size()),
            .step_ms = step,
            .samples_per_second = plan.simulated_samples_per_second};
  }

  double rate_at(const Place& at) const {
    const std::optional<ScheduleCandidate>& candidate = found_.at(at);
    return candidate ? candidate->samples_per_second : 0;
  }
  bool is_any_found() const {
    return std::ranges::any_of(found_, [](const auto& entry) { return entry.second.has_value(); });
  }
  // The first of them.
  Place fastest() const {
    return std::ranges::max_element(found_, {}, [&](const auto& entry) { return rate_at(entry.first); })
        ->first;
  }

  // The first that is hardly slower.
  Place chosen() const {
    constexpr double kHardlySlower = 0.01;
    const double least = rate_at(fastest()) * (1 - kHardlySlower);
    return std::ranges::find_if(found_, [&](const auto& entry) { return rate_at(entry.first) >= least; })
        ->first;
  }

  ScheduleChoice choice() const {
    constexpr std::size_t kMostOthers = 3;
    const Place place = chosen();
    ScheduleChoice made{.chosen = found_.at(place).value(), .tried = static_cast<int>(found_.size())};
    for (const auto& [at, candidate] : found_) {
      if (!candidate) {
        ++made.too_large;
      } else if (at != place) {
        made.others.push_back(*candidate);
      }
    }
    std::ranges::stable_sort(made.others, std::greater<>(), &ScheduleCandidate::samples_per_second);
    made.others.resize(std::min(made.others.size(), kMostOthers));
    return made;
  }

  const NodePool& pool_;  // of the caller
  SearchOptions options_;
  const TimeLimit limit_;
  TrainingTask trial_;
  const TrainingSettings asked_ = trial_.settings;
  const std::vector<int> numbers_;
  const std::vector<std::string> schedules_;
  std::map<Place, std::optional<ScheduleCandidate>> found_;  // nothing: it does not fit
};

}  // namespace

std::vector<int> possible_micro_batches(const TrainingSettings& settings, const Graph& graph) {
  if (settings.schedule.name != kAutoSchedule && !is_synchronous(settings.schedule)) return {1};
  if (!mixing_ops(graph).empty()) return {1};
  const std::int64_t least = uses_batch_statistics(graph) ? kLeastStatistics : 1;
  std::vector<int> numbers{1};
  for (std::int64_t power = 2; power <= std::min<std::int64_t>(settings.batch_size, kMostMicroBatches);
       power *= 2) {
    TrainingSettings divided = settings;
    divided.micro_batches = static_cast<int>(nearest_divisor(power, settings.batch_size));
    const std::vector<std::int64_t> sizes = micro_batch_sizes(divided, settings.batch_size);
    if (sizes.back() < least) break;
    numbers.push_back(static_cast<int>(sizes.size()));
  }
  return numbers;
}

std::optional<ScheduleChoice> choose_schedule(TrainingTask& task, const NodePool& pool,
                                              const SearchOptions& options, MeasuredKernels* measured) {
  const bool has_kernels = task.settings.micro_batches.has_value();
  if (has_kernels && task.settings.schedule.name != kAutoSchedule) return std::nullopt;
  const ScheduleChoice choice = ScheduleChooser(task, pool, options).run();
  task.settings.micro_batches = choice.chosen.micro_batches;
  task.settings.schedule.name = choice.chosen.schedule;
  if (!has_kernels) choose_kernels(task, measured);
  return choice;
}

}  // namespace rookery
