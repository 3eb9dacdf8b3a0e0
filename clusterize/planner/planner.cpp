#include "clusterize/planner/planner.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <utility>

#include "clusterize/costs/averaging/averaging_memory.hpp"
#include "clusterize/genetic/time_limit.hpp"
#include "clusterize/order/rings.hpp"
#include "clusterize/planner/choices/choose_transport.hpp"
#include "clusterize/planner/fit/chunks.hpp"
#include "clusterize/planner/left_out.hpp"
#include "clusterize/planner/long_links.hpp"
#include "clusterize/planner/plan_id.hpp"
#include "clusterize/planner/predictions.hpp"
#include "clusterize/simulation/in_flight.hpp"
#include "clusterize/simulation/simulation.hpp"
#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/averaging/averagers.hpp"
#include "trainer/schedule/machine_order.hpp"

namespace rookery {
namespace {

// First op of every stage.
std::vector<OpId> op_begins(const ModelCosts& costs, const StagePartition& partition) {
  std::vector<OpId> begins;
  for (const int segment : partition.begins) begins.push_back(costs.segments[segment].begin);
  return begins;
}

// By cluster: stages and their predictions.
void add_clusters(const TrainingTask& task, const Fit& fit, Planned& planned) {
  planned.pool = fit.model->pool();
  planned.members = fit.grouping.clusters;
  for (std::size_t c = 0; c < planned.members.size(); ++c) {
    const StagePartition& partition = *fit.throughput.cuts[c];
    planned.cuts.push_back(partition);
    planned.stages.push_back(cut(task.graph, op_begins(*fit.costs, partition)));
    planned.plan.clusters.push_back(predicted_cluster(task, *fit.model, planned.members.size(),
                                                      planned.members[c], partition, planned.stages.back()));
    planned.plan.clusters.back().id = static_cast<int>(c);
  }
}

// No update is made ahead where there are several clusters (updates_ahead()): there is no copy to take it
// back from.
void leave_out_copies(std::vector<PlannedStage>& stages) {
  for (PlannedStage& stage : stages) stage.prediction.memory.kept = 0;
}

// With what is in flight, or on its links, chosen otherwise. Averaging takes the same memory as before.
void predict_again(const TrainingTask& task, const ThroughputModel& model, std::size_t at,
                   const std::vector<int>& in_flight, const std::vector<PlannedLink>& links,
                   Planned& planned) {
  PlannedCluster& before = planned.plan.clusters[at];
  PlannedCluster made = predicted_cluster(task, model, planned.members.size(), planned.members[at],
                                          planned.cuts[at], planned.stages[at], in_flight, links);
  made.id = before.id;
  for (std::size_t stage = 0; stage < made.stages.size(); ++stage)
    made.stages[stage].prediction.averaging_bytes = before.stages[stage].prediction.averaging_bytes;
  if (planned.plan.clusters.size() > 1) leave_out_copies(made.stages);
  before = std::move(made);
}

// For every cluster, by stage. Of a plan that has its memory for averaging.
void choose_in_flight(const TrainingTask& task, const NodePool& pool, const ThroughputModel& model,
                      Planned& planned) {
  for (std::size_t c = 0; c < planned.members.size(); ++c) {
    const std::vector<int>& members = planned.members[c];
    const StepParts parts = step_parts(model, members, planned.cuts[c], task.settings.schedule);
    const std::vector<int> chosen = choose_in_flight(task, pool, planned, c, parts);
    if (!std::ranges::equal(chosen, planned.plan.clusters[c].stages, {}, {}, &PlannedStage::in_flight))
      predict_again(task, model, c, chosen, {}, planned);
  }
}

// For every cluster, by link.
void choose_transport(const TrainingTask& task, const NodePool& pool, const ThroughputModel& model,
                      Planned& planned) {
  if (!is_auto(task.settings.transport)) return;
  for (std::size_t c = 0; c < planned.members.size(); ++c) {
    std::vector<int> in_flight;
    for (const PlannedStage& stage : planned.plan.clusters[c].stages) in_flight.push_back(stage.in_flight);
    predict_again(task, model, c, in_flight, choose_transport(task, pool, planned, c), planned);
  }
}

// As predicted, with what is in flight, and with averaging.
double predicted_samples_per_second(const ClusterPlan& plan, double averaging_seconds) {
  const double longest =
      std::ranges::max(plan.clusters, {}, &PlannedCluster::predicted_step_ms).predicted_step_ms;
  return static_cast<double>(plan.batch_size) * static_cast<double>(plan.clusters.size()) /
         (longest / 1e3 + averaging_seconds);
}

// A machine's chunks take turns, by the same threads.
void add_threads_of_hosts(Planned& planned) {
  std::map<std::string, int> threads;
  const auto for_each = [&](const auto& action) {
    for (std::size_t c = 0; c < planned.members.size(); ++c) {
      for (std::size_t i = 0; i < planned.members[c].size(); ++i) {
        const PoolNode& node = planned.pool.node(planned.members[c][i]);
        action(planned.plan.clusters[c].stages[i], node, threads[node.host]);
      }
    }
  };
  for_each([](const PlannedStage& stage, const PoolNode& node, int& of_host) {
    if (node.chunk == 0) of_host += stage.threads;
  });
  for_each([](PlannedStage& stage, const PoolNode& /*node*/, const int& of_host) {
    stage.threads_of_host = of_host;
  });
}

// The most samples, up to a whole batch, with which a cluster's step is hardly longer than `limit`: by a
// smaller part than one more sample is of those that all clusters train in a step.
std::int64_t share_within(double limit, const ClusterPlan& plan,
                          const std::function<double(std::int64_t samples)>& step_ms) {
  const double all = static_cast<double>(plan.batch_size) * static_cast<double>(plan.clusters.size());
  std::int64_t fits = 1;
  std::int64_t exceeds = plan.batch_size + 1;
  while (exceeds - fits > 1) {
    const std::int64_t samples = fits + (exceeds - fits) / 2;
    (step_ms(samples) <= limit * (1 + 1 / all) ? fits : exceeds) = samples;
  }
  return fits;
}

// Steps as their schedule runs, and shares: the fastest cluster trains a whole batch, and each other as much
// as it does in the same time, of which a part, the update, is the same for any share.
void add_simulated(const TrainingTask& task, const NodePool& pool, double averaging_seconds,
                   Planned& planned) {
  ClusterPlan& plan = planned.plan;
  const auto step_ms = [&](std::size_t cluster, std::int64_t samples) {
    return 1e3 * simulated_step_seconds(task, pool, planned, cluster, samples);
  };
  for (std::size_t c = 0; c < plan.clusters.size(); ++c)
    plan.clusters[c].simulated_step_ms = step_ms(c, plan.batch_size);
  const double shortest =
      std::ranges::min(plan.clusters, {}, &PlannedCluster::simulated_step_ms).simulated_step_ms;
  double longest = 0;
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    PlannedCluster& cluster = plan.clusters[c];
    cluster.share =
        task.settings.shares == "equal"
            ? plan.batch_size
            : share_within(shortest, plan, [&](std::int64_t samples) { return step_ms(c, samples); });
    cluster.share_step_ms = step_ms(c, cluster.share);
    longest = std::max(longest, cluster.share_step_ms / 1e3 + averaging_seconds);
  }
  plan.simulated_samples_per_second = static_cast<double>(shares_of(plan, 0).joint()) / longest;
}

// Of plans of several clusters. The most that the buffers of a stage's rings take.
std::int64_t add_averaging_memory(const TrainingTask& task, Planned& planned) {
  ClusterPlan& plan = planned.plan;
  const int clusters = static_cast<int>(plan.clusters.size());
  if (clusters == 1) return 0;
  for (PlannedCluster& cluster : plan.clusters) leave_out_copies(cluster.stages);
  std::map<std::pair<std::size_t, int>, std::int64_t> of_rings;  // by cluster and stage
  for (const Ring& ring : plan.rings) {
    const AveragedLoad load = load_of(ring);
    const auto buffers =
        static_cast<std::int64_t>(round_traffic(task.settings, load, clusters).buffer_bytes());
    for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
      PlannedStage& stage = plan.clusters[c].stages[ring.stages[c]];
      stage.prediction.averaging_bytes += buffers + averager_bytes(task.settings, load);
      of_rings[{c, ring.stages[c]}] += buffers;
    }
  }
  std::int64_t most = 0;
  for (const auto& [place, bytes] : of_rings) most = std::max(most, bytes);
  return most;
}

void check_all_fit(const Planned& planned) {
  for (std::size_t c = 0; c < planned.members.size(); ++c) {
    for (std::size_t i = 0; i < planned.members[c].size(); ++i)
      check_fits(planned.plan.clusters[c].stages[i], planned.pool.node(planned.members[c][i]));
  }
}

struct FittedClusters {
  Fit searched;
  std::optional<Fit> chunks;  // where machines have several stages
  Planned planned;            // clusters and rings
  std::int64_t ring_bytes = 0;

  const Fit& fit() const { return chunks ? *chunks : searched; }
};

FittedClusters fitted_clusters(const TrainingTask& task, const NodePool& pool, const ModelCosts& costs,
                               const SearchOptions& options) {
  FittedClusters found{.searched = find_fit(pool, searched_costs(costs), options)};
  if (has_chunks(costs.schedule)) found.chunks = with_chunks(found.searched, costs);
  add_clusters(task, found.fit(), found.planned);
  found.planned.machines = found.searched.grouping.clusters;
  found.planned.plan.rings = make_rings(found.planned.stages);
  found.ring_bytes = add_averaging_memory(task, found.planned);
  return found;
}

// Advice is of plans with averaging, too.
ModelCosts costs_with_averaging(const TrainingTask& task, const ModelCosts& costs, std::int64_t ring_bytes) {
  const auto memory_of = [graph = task.graph, settings = task.settings, ring_bytes](const ModelCosts& of) {
    std::vector<OpId> begins;
    for (const Segment& segment : of.segments) begins.push_back(segment.begin);
    return with_averaging(of.memory, graph, begins, settings, ring_bytes);
  };
  ModelCosts counted = costs;
  counted.memory = memory_of(costs);
  if (costs.trained) {
    counted.trained = [trained = costs.trained, memory_of](const Training& training) {
      ModelCosts other = trained(training);
      other.memory = memory_of(other);
      return other;
    };
  }
  return counted;
}

// At first without the memory that averaging takes, which depends on the plan: most often there is enough.
// Then with what it took in the plan that did not fit; and where none fits so, as one cluster, which averages
// nothing.
FittedClusters clusters_that_fit(const TrainingTask& task, const NodePool& pool, const ModelCosts& costs,
                                 const SearchOptions& options) {
  const TimeLimit limit(options.seconds);
  SearchOptions within = options;
  FittedClusters found = fitted_clusters(task, pool, costs, within);
  for (std::int64_t ring_bytes = -1;;) {
    try {
      check_all_fit(found.planned);
      return found;
    } catch (const ConfigError&) {
      if (found.ring_bytes <= ring_bytes) throw;
    }
    ring_bytes = found.ring_bytes;
    within.seconds = limit.left();
    try {
      found = fitted_clusters(task, pool, costs_with_averaging(task, costs, ring_bytes), within);
    } catch (const ConfigError&) {
      if (options.clusters) throw;
      const std::exception_ptr reason = std::current_exception();
      within.clusters = 1;
      try {
        return fitted_clusters(task, pool, costs, within);
      } catch (const ConfigError&) {  // of one cluster, for which nobody has asked
        std::rethrow_exception(reason);
      }
    }
  }
}

void add_left_out(const NodePool& pool, const Fit& fit, const SearchOptions& options, ClusterPlan& plan) {
  const std::vector<int>& left_out = fit.grouping.left_out;
  const std::vector<std::string> reasons =
      reasons_to_leave_out(*fit.model, options, fit.grouping.clusters, fit.throughput, left_out);
  for (std::size_t i = 0; i < reasons.size(); ++i)
    plan.left_out.push_back({"node_" + pool.node(left_out[i]).id, reasons[i]});
}

// The clusters are searched by `costs`, and predicted as the task is.
Planned plan_searched_by(const ModelCosts& costs, const TrainingTask& task, const NodePool& machines,
                         const SearchOptions& options) {
  FittedClusters found = clusters_that_fit(task, machines, costs, options);
  const Fit& fit = found.fit();
  const NodePool& pool = fit.model->pool();
  Planned planned = std::move(found.planned);
  ClusterPlan& plan = planned.plan;
  plan.objective = name_of(options.objective);
  plan.model = task.settings.model;
  plan.batch_size = task.settings.batch_size;
  plan.micro_batches = costs.micro_batches;
  plan.schedule = task.settings.schedule;
  plan.averaging = task.settings.averaging;
  plan.seed = options.seed;
  plan.resume = task.resume;
  planned.costs = searched_costs(costs);
  planned.costs.memory = found.searched.memory;
  choose_in_flight(task, pool, *fit.model, planned);
  choose_transport(task, pool, *fit.model, planned);
  fill_long_links(task, pool, planned);
  add_left_out(machines, found.searched, options, plan);
  add_threads_of_hosts(planned);
  plan.predicted_averaging_ms = 1e3 * fit.throughput.averaging_seconds;
  plan.predicted_round_ms = 1e3 * fit.throughput.round_seconds;
  plan.rounds_per_step = costs.averaging.rate(static_cast<int>(plan.clusters.size())).rounds();
  plan.predicted_samples_per_second = predicted_samples_per_second(plan, fit.throughput.averaging_seconds);
  plan.bound_samples_per_second = found.searched.model->bound_samples_per_second();
  add_simulated(task, pool, fit.throughput.averaging_seconds, planned);
  plan.plan_id = plan_id_of(task, machines, plan);
  return planned;
}

// A part of a search that is several: its share of the time, and of the progress from `begin` on.
SearchOptions part_of(const SearchOptions& options, double begin, double share) {
  SearchOptions part = options;
  if (part.seconds) *part.seconds *= share;
  if (options.progress) {
    part.progress = [whole = options.progress, begin, share](const std::string& best, double done) {
      whole(best, begin + share * done);
    };
  }
  return part;
}

// Of clusters that are good as links are, and of those that are good when all links have the fewest bits,
// whichever is faster with the links then chosen: the second ones, where that is worth the rounding.
Planned plan_with_auto_transport(const TrainingTask& task, const NodePool& pool, const ModelCosts& costs,
                                 const SearchOptions& options) {
  constexpr double kHalf = 0.5;
  Planned as_they_are = plan_searched_by(costs, task, pool, part_of(options, 0, kHalf));
  TrainingTask strongest{.graph = task.graph,
                         .settings = task.settings,
                         .data = task.data,
                         .kernels = task.kernels,
                         .profile = task.profile};
  strongest.settings.transport = strongest_transport(task.settings.transport);
  try {
    Planned others =
        plan_searched_by(model_costs(strongest, pool), task, pool, part_of(options, kHalf, kHalf));
    ClusterPlan& plan = as_they_are.plan;
    if (others.plan.simulated_samples_per_second >
        plan.simulated_samples_per_second * (1 + kLeastTransportGain))
      return others;
    plan.bound_samples_per_second = others.plan.bound_samples_per_second;  // of any choice
  } catch (const ConfigError&) {  // they fit no machine where a link has all its bits
  }
  return as_they_are;
}

}  // namespace

Planned make_plan(const TrainingTask& task, const NodePool& pool, const SearchOptions& options) {
  return make_plan(task, pool, model_costs(task, pool), options);
}

Planned make_plan(const TrainingTask& task, const NodePool& pool, const ModelCosts& costs,
                  const SearchOptions& options) {
  ROOKERY_CHECK(undecided(task.settings).empty(), "not decided: {}",
                fmt::join(undecided(task.settings), ", "));
  return is_auto(task.settings.transport) ? plan_with_auto_transport(task, pool, costs, options)
                                          : plan_searched_by(costs, task, pool, options);
}

}  // namespace rookery
