// Decides by which schedule a plan trains, and in how many micro-batches, where train.json leaves that to the
// planner (`"schedule": "auto"`, `"micro_batches": "auto"`).
#pragma once

#include <optional>
#include <vector>

#include "clusterize/costs/training_task.hpp"
#include "clusterize/plan/cluster_plan.hpp"
#include "clusterize/pool/node_pool.hpp"
#include "clusterize/search/search.hpp"
#include "models/kernels/measured.hpp"

namespace rookery {

// The numbers of micro-batches that may be chosen for a batch of the settings, rising: 1 and about the powers
// of two, up to kMostMicroBatches, with equal parts where there is such a divisor of the batch nearby. Where
// a BatchNormalization takes the statistics of each, they have kLeastStatistics samples, or are whole
// batches; 1 alone where other ops mix the samples of a batch, and where a batch is asynchronous.
std::vector<int> possible_micro_batches(const TrainingSettings& settings, const Graph& graph);
constexpr int kMostMicroBatches = 256;

// Gives the task what is undecided() of its schedule and micro-batches, with kernels for these, by `measured`
// where given. Plans are searched for and simulated with some of what is possible; that with the most samples
// a second is chosen, and of those that are hardly slower the fewest micro-batches, and the first of 1f1b,
// zb, interleaved (with two chunks) and zbv. It does not depend on a profile, which is of one size of
// micro-batches. Takes half of the options' seconds. Nothing where both are decided. ConfigError where no
// plan fits.
std::optional<ScheduleChoice> choose_schedule(TrainingTask& task, const NodePool& pool,
                                              const SearchOptions& options,
                                              MeasuredKernels* measured = nullptr);

}  // namespace rookery
