#include "clusterize/simulation/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "clusterize/order/rings.hpp"
#include "clusterize/pool/rate.hpp"
#include "models/base/rng.hpp"
#include "trainer/checkpoint/checkpointer.hpp"
#include "trainer/settings/checkpoint_interval.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kMostAveragingMessages = 50'000;
// Until then steps with stragglers are simulated one by one, and the epoch ends.
constexpr std::int64_t kMostActions = 50'000'000;

// Those of a cluster that trains so many samples of a step: its share in as many micro-batches as a whole
// batch.
TrainingSettings with_share(TrainingSettings settings, std::int64_t share) {
  settings.batch_size = share;
  return settings;
}

FlowWay way(const NodePool& pool, int from, int to) {
  if (from == to) return {.bytes_per_second = 1};  // nobody sends to itself
  const LinkSpeed link = pool.link(from, to);
  return {.latency = link.latency_ms / 1e3, .bytes_per_second = bytes_per_second(link.bandwidth_mbps)};
}

double connection(const NodePool& pool, int node) {
  return bytes_per_second(pool.connection_mbps(node));
}

std::int64_t instructions(const StepProgram& program) {
  std::int64_t count = 0;
  for (const auto& one : program.programs) count += std::ssize(one);
  return count;
}

double uniform(CounterRng& rng) {  // above 0, up to 1
  return (static_cast<double>(rng.next()) + 1) / 4294967296.0;
}

RoundSeconds simulated_rounds(const TrainingTask& task, const NodePool& pool, const Planned& planned) {
  const auto seconds = [&](int fragments) {
    return simulate_step(averaging_program(task, pool, planned, fragments)).seconds;
  };
  const int fragments = round_rate(planned).fragments;
  RoundSeconds round{.whole = seconds(1)};
  round.fragment = fragments == 1 ? round.whole : seconds(fragments);
  return round;
}

// A kind of batch, or several that run together: one program per cluster, and how long it takes without
// stragglers.
struct Batches {
  std::int64_t count = 1;
  std::vector<StepProgram> programs;
  std::vector<StepRun> runs;
  double step_seconds = 0;   // of the slowest cluster
  double flush_seconds = 0;  // what filling and draining the pipeline adds to the steps of an epoch
};

class Simulator {
 public:
  Simulator(const TrainingTask& task, const NodePool& pool, const Planned& planned,
            const SimulationOptions& options)
      : task_(task), pool_(pool), planned_(planned), options_(options) {
    for (std::size_t c = 0; c < planned.members.size(); ++c) {
      models_.push_back(pipeline_model(task, pool, planned, c));
      machines_ += models_.back().placement().machines;
    }
  }

  Simulation run() {
    const TrainingSettings& settings = task_.settings;
    const ClusterShares shares = shares_of(planned_.plan, 0);
    const std::int64_t samples = task_.data.train_samples;
    std::int64_t together = 1;
    for (const PipelineModel& model : models_)
      together = std::max(together, batches_to_simulate(model, micro_batches()));
    full_ =
        batches(shares, shares.samples, [&](const auto& own, const PipelineModel& model, std::int64_t share) {
          return program_of_batches(own, model, together, share);
        });
    full_steps_ = samples / shares.joint();
    if (const std::int64_t rest = samples % shares.joint(); rest > 0) {
      if (is_synchronous(settings.schedule)) {
        last_ = batches(shares, parts(shares, rest),
                        [](const auto& own, const PipelineModel& model, std::int64_t part) {
                          return program_of_batches(own, model, 1, part);
                        });
      } else {
        ++full_steps_;  // taken to be whole
      }
    }
    validation_ = validation_batch(shares);
    average();

    result_.epochs = options_.epochs.value_or(settings.epochs);
    result_.steps = result_.epochs * (full_steps_ + (last_ ? 1 : 0));
    result_.samples = result_.epochs * samples;
    run_epochs();
    result_.step_seconds = full_.step_seconds + result_.averaging_seconds;
    describe_use();
    if (options_.failures_per_hour > 0) fail();
    return std::move(result_);
  }

 private:
  static std::vector<std::int64_t> parts(const ClusterShares& shares, std::int64_t samples) {
    std::vector<std::int64_t> counts;
    for (const SampleRange& part : shares.parts_of(samples)) counts.push_back(part.count);
    return counts;
  }

  // `samples`: by cluster; one without any has nothing to do. Each is given its own settings.
  template <typename Program>
  Batches batches(const ClusterShares& shares, const std::vector<std::int64_t>& samples,
                  const Program& program) {
    Batches made;
    for (std::size_t c = 0; c < models_.size(); ++c) {
      const PipelineModel& model = models_[c];
      made.programs.push_back(
          samples[c] == 0 ? StepProgram()
                          : program(with_share(task_.settings, shares.samples[c]), model, samples[c]));
      made.runs.push_back(simulate_step(made.programs.back()));
      const StepRun& run = made.runs.back();
      made.count = std::max<std::int64_t>(made.count, std::ssize(run.updated));
      const std::size_t fill = batches_to_fill(model, micro_batches());
      made.step_seconds = std::max(made.step_seconds, full_span(run, fill).step_seconds());
      result_.simulated_actions += instructions(made.programs.back());
    }
    for (const StepRun& run : made.runs) {
      const auto steps = static_cast<double>(std::max<std::size_t>(1, run.updated.size()));
      made.flush_seconds = std::max(made.flush_seconds, run.seconds - steps * made.step_seconds);
    }
    return made;
  }

  // All batches of a validation, one behind the other.
  std::optional<Batches> validation_batch(const ClusterShares& shares) {
    const TrainingSettings& settings = task_.settings;
    const std::int64_t all = task_.data.validation_samples;
    if (settings.validate_every == 0 || all == 0) return std::nullopt;
    return batches(
        shares, parts(shares, all), [](const auto& own, const PipelineModel& model, std::int64_t samples) {
          std::vector<std::int64_t> sizes;
          for (std::int64_t first = 0; first < samples; first += own.batch_size) {
            for (const std::int64_t size : micro_batch_sizes(own, std::min(own.batch_size, samples - first)))
              sizes.push_back(size);
          }
          return validation_pass(model, sizes);
        });
  }

  void average() {
    result_.averaging_is_estimated = !averaging_is_simulated(planned_.plan);
    if (result_.averaging_is_estimated) {
      result_.averaging_seconds = planned_.plan.predicted_averaging_ms / 1e3;
      result_.round_seconds = planned_.plan.predicted_round_ms / 1e3;
      return;
    }
    const RoundRate rate = round_rate(planned_);
    const RoundSeconds round = simulated_rounds(task_, pool_, planned_);
    result_.averaging_seconds = exposed_seconds(rate, round, full_.step_seconds);
    result_.round_seconds = mean_seconds(rate, round);
    averaging_ = averaging_program(task_, pool_, planned_, 1);
    result_.simulated_actions += instructions(averaging_);
  }

  void run_epochs() {
    const bool varies = options_.straggler_share > 0;
    double training = 0;
    double validation = 0;
    std::int64_t validations = 0;
    std::int64_t epoch = 0;
    for (; epoch < result_.epochs && result_.simulated_actions < kMostActions; ++epoch) {
      for (std::int64_t left = full_steps_; left > 0; left -= full_.count)
        training += static_cast<double>(std::min(left, full_.count)) * seconds_of(full_);
      if (last_) training += seconds_of(*last_);
      // The last batch, where it is smaller, fills and empties the pipeline by itself.
      if (full_steps_ > 0 && !last_) training += full_.flush_seconds;
      if (validates_after(epoch)) {
        validation += seconds_of(*validation_);
        ++validations;
      }
      if (!varies) break;
    }
    result_.simulated_epochs = std::min<std::int64_t>(epoch + (varies ? 0 : 1), result_.epochs);
    if (validation_ && validations == 0) validation = validation_->step_seconds, validations = 1;
    const double epochs = result_.epochs;
    training *= epochs / static_cast<double>(result_.simulated_epochs);
    training += static_cast<double>(result_.steps) * result_.averaging_seconds;
    const std::int64_t due = validation_ ? result_.epochs / task_.settings.validate_every : 0;
    if (validations > 0) validation *= static_cast<double>(due) / static_cast<double>(validations);
    result_.validation_seconds = validation;
    result_.seconds = training + validation;
    result_.samples_per_second = static_cast<double>(result_.samples) / training;
  }

  bool validates_after(std::int64_t epoch) const {
    return validation_ && (epoch + 1) % task_.settings.validate_every == 0;
  }

  std::size_t micro_batches() const {
    return micro_batch_sizes(task_.settings, task_.settings.batch_size).size();
  }

  // Of a step of the next batches of this kind.
  double seconds_of(const Batches& batches) {
    if (options_.straggler_share == 0) return batches.step_seconds;
    CounterRng rng(rng_key(options_.seed, "simulate.stragglers"), draws_++);
    double seconds = 0;
    for (std::size_t c = 0; c < batches.programs.size(); ++c) {
      const StagePlacement placement = models_[c].placement();
      std::vector<double> slowdowns(static_cast<std::size_t>(placement.machines * batches.count), 1);
      bool any = false;
      for (double& slowdown : slowdowns) {
        if (uniform(rng) > options_.straggler_share) continue;
        slowdown = options_.straggler_factor;
        any = true;
      }
      if (any) result_.simulated_actions += instructions(batches.programs[c]);
      const Slowdown slowdown = [&](int node, int batch) {
        return slowdowns[static_cast<std::size_t>(batch * placement.machines + placement.machine_of(node))];
      };
      const StepRun run = any ? simulate_step(batches.programs[c], slowdown) : batches.runs[c];
      const std::size_t fill = batches_to_fill(models_[c], micro_batches());
      seconds = std::max(seconds, full_span(run, fill).step_seconds());
    }
    return seconds;
  }

  void describe_use() {
    describe_nodes();
    LinkBytes bytes;
    for (std::size_t c = 0; c < models_.size(); ++c) {
      const std::vector<int>& members = planned_.members[c];
      add_bytes(
          full_.programs[c], [&](int stage) { return members[stage]; }, bytes);
    }
    for (auto& [nodes, sum] : bytes) sum /= static_cast<double>(full_.count);
    LinkBytes of_a_round;
    add_bytes(
        averaging_, [](int node) { return node; }, of_a_round);
    for (const auto& [nodes, sum] : of_a_round) bytes[nodes] += sum * planned_.plan.rounds_per_step;
    LinkBytes of_machines;  // by the first nodes of these
    for (const auto& [nodes, sum] : bytes) {
      const auto [from, to] = nodes;
      if (pool_.machine(from) == pool_.machine(to)) continue;
      use_connections(from, to, sum);
      of_machines[{first_node_.at(pool_.machine(from)), first_node_.at(pool_.machine(to))}] += sum;
    }
    for (const auto& [nodes, sum] : of_machines) describe_link(nodes.first, nodes.second, sum);
    std::ranges::stable_sort(result_.links, std::greater<>(), &LinkUse::used);
  }

  void describe_nodes() {
    double slowest = 0;
    double computing = 0;
    for (std::size_t c = 0; c < models_.size(); ++c) {
      const PlannedCluster& cluster = planned_.plan.clusters[c];
      const double part = cluster.share_step_ms / cluster.simulated_step_ms;
      slowest = std::max(slowest, part * cluster.predicted_step_ms);
      for (std::size_t stage = 0; stage < models_[c].stages.size(); ++stage) {
        const int node = planned_.members[c][stage];
        place_[node] = result_.nodes.size();
        first_node_.emplace(pool_.machine(node), node);
        const double own = full_.runs[c].computing[stage] / static_cast<double>(full_.count);
        computing += own;
        result_.nodes.push_back({.node = cluster.stages[stage].node,
                                 .cluster = static_cast<int>(c),
                                 .stage = static_cast<int>(stage),
                                 .computing = own / result_.step_seconds});
      }
    }
    result_.predicted_step_seconds = (slowest + planned_.plan.predicted_averaging_ms) / 1e3;
    result_.bubble_share = 1 - computing / result_.step_seconds / machines_;
  }

  using LinkBytes = std::map<std::pair<int, int>, double>;  // by nodes of the pool

  template <typename NodeOf>
  static void add_bytes(const StepProgram& program, const NodeOf& node_of, LinkBytes& bytes) {
    for (const ProgramMessage& message : program.messages)
      bytes[{node_of(message.from), node_of(message.to)}] += message.bytes;
  }

  void use_connections(int from, int to, double bytes) {
    const double step = result_.step_seconds;
    result_.nodes[place_.at(from)].sending += bytes / connection(pool_, from) / step;
    result_.nodes[place_.at(to)].receiving += bytes / connection(pool_, to) / step;
  }

  void describe_link(int from_node, int to_node, double bytes) {
    const NodeUse& from = result_.nodes[place_.at(from_node)];
    const NodeUse& to = result_.nodes[place_.at(to_node)];
    const double step = result_.step_seconds;
    result_.links.push_back({.from = from.node,
                             .to = to.node,
                             .from_cluster = from.cluster,
                             .to_cluster = to.cluster,
                             .bytes = bytes,
                             .used = bytes / way(pool_, from_node, to_node).bytes_per_second / step});
  }

  // From one checkpoint to the next, of a run without failures; all of it where none are made.
  double seconds_between_checkpoints() const {
    if (!stops_between_steps(task_.settings)) return result_.seconds;
    const CheckpointInterval every = checkpoint_interval(task_.settings.checkpoint_every).value();
    double unit = 1;
    if (every.unit == CheckpointInterval::Unit::kSteps)
      unit = result_.seconds / static_cast<double>(result_.steps);
    if (every.unit == CheckpointInterval::Unit::kEpochs) unit = result_.seconds / result_.epochs;
    return std::min(result_.seconds, unit * static_cast<double>(every.count));
  }

  // The run goes on from its last checkpoint until it lasts to its end.
  void fail() {
    const double rate = options_.failures_per_hour / 3600 * machines_;
    const double pause = task_.settings.peer_timeout_seconds + options_.restart_seconds;
    const double span = seconds_between_checkpoints();
    const double spans = std::floor(result_.seconds / span);
    // To get over a span of the run, with all that fails in it.
    const auto expected = [&](double seconds) { return std::expm1(rate * seconds) * (1 / rate + pause); };
    FailureOutcome outcome{.expected_seconds =
                               spans * expected(span) + expected(result_.seconds - spans * span)};
    CounterRng rng(rng_key(options_.seed, "simulate.failures"), 0);
    double kept = 0;  // of the run, by the last checkpoint
    for (; outcome.failures < kMostFailures; ++outcome.failures) {
      const double reached = kept - std::log(uniform(rng)) / rate;
      if (reached >= result_.seconds) {
        outcome.seconds = outcome.lost_seconds + result_.seconds;
        break;
      }
      kept = std::max(kept, std::floor(reached / span) * span);
      outcome.lost_seconds += reached - kept + pause;
    }
    result_.failures = outcome;
  }

  const TrainingTask& task_;  // all of the caller
  const NodePool& pool_;
  const Planned& planned_;
  const SimulationOptions& options_;
  std::vector<PipelineModel> models_;  // by cluster
  int machines_ = 0;                   // of all of them
  Batches full_;
  std::optional<Batches> last_, validation_;
  std::int64_t full_steps_ = 0;  // of an epoch
  std::uint64_t draws_ = 0;      // of stragglers
  StepProgram averaging_;
  std::map<int, std::size_t> place_;  // in result_.nodes, by node of the pool
  std::map<int, int> first_node_;     // of a machine: of its first stage
  Simulation result_;
};

}  // namespace

PipelineModel pipeline_model(const TrainingTask& task, const NodePool& pool, const Planned& planned,
                             std::size_t cluster) {
  const std::vector<int>& members = planned.members[cluster];
  PipelineModel model{.schedule = task.settings.schedule,
                      .stages = planned.stages[cluster],
                      .micro_batch = micro_batch_sizes(task.settings, task.settings.batch_size).front(),
                      .clips_gradients = task.settings.clip_gradient_norm.has_value(),
                      .encoding = encoding_of(task, planned.plan.clusters[cluster].links)};
  model.schedule.updates_ahead = updates_ahead(task, planned.plan);
  for (std::size_t stage = 0; stage < members.size(); ++stage) {
    const PlannedStage& planned_stage = planned.plan.clusters[cluster].stages[stage];
    model.schedule.planned.push_back(planned_stage.in_flight);
    model.work.push_back({.forward = planned_stage.prediction.forward_ms / 1e3,
                          .backward = planned_stage.prediction.backward_ms / 1e3,
                          .recompute = planned_stage.recompute,
                          .update = planned_stage.prediction.update_ms / 1e3,
                          .bytes_per_second = connection(pool, members[stage])});
    std::vector<FlowWay>& links = model.links.emplace_back();
    for (std::size_t to = 0; to < members.size(); ++to) {
      links.push_back(way(pool, members[stage], members[to]));
      links.back().from = static_cast<int>(stage);
      links.back().to = static_cast<int>(to);
    }
  }
  return model;
}

std::size_t most_stages(const Planned& planned) {
  std::size_t most = 0;
  for (const std::vector<int>& members : planned.members) most = std::max(most, members.size());
  return most;
}

std::size_t batches_to_fill(const PipelineModel& model, std::size_t micro_batches) {
  const int most =
      in_flight(model.schedule, 0, static_cast<int>(model.stages.size()), static_cast<int>(micro_batches));
  return (std::max(model.stages.size(), static_cast<std::size_t>(most)) + micro_batches - 1) / micro_batches;
}

std::int64_t batches_to_simulate(const PipelineModel& model, std::size_t micro_batches) {
  if (!steps_overlap(model)) return 1;
  const auto fill = static_cast<std::int64_t>(batches_to_fill(model, micro_batches));
  return is_synchronous(model.schedule) ? 2 * fill + 5 : 4 * fill + 8;
}

StepProgram program_of_batches(const TrainingSettings& settings, const PipelineModel& model,
                               std::int64_t batches, std::int64_t samples) {
  return training_program(model, micro_batch_sizes(settings, samples), static_cast<int>(batches));
}

StepProgram program_of_full_batches(const TrainingSettings& settings, const PipelineModel& model,
                                    std::int64_t batches) {
  return program_of_batches(settings, model, batches, settings.batch_size);
}

// The pipeline is full from the first update of its first stage on, until that has no forwards left.
FullSpan full_span(const StepRun& run, std::size_t fill) {
  if (run.updated.size() <= 2 * fill + 1) return {.end = run.seconds};
  const std::size_t last = run.updated.size() - 1 - fill;
  return {.begin = run.updated[fill], .end = run.updated[last], .steps = static_cast<double>(last - fill)};
}

double simulated_step_seconds(const TrainingTask& task, const NodePool& pool, const Planned& planned,
                              std::size_t cluster, std::int64_t samples) {
  const PipelineModel model = pipeline_model(task, pool, planned, cluster);
  const std::size_t micro_batches = micro_batch_sizes(task.settings, task.settings.batch_size).size();
  const StepProgram program = program_of_batches(with_share(task.settings, samples), model,
                                                 batches_to_simulate(model, micro_batches), samples);
  return full_span(simulate_step(program), batches_to_fill(model, micro_batches)).step_seconds();
}

bool averaging_is_simulated(const ClusterPlan& plan) {
  const std::int64_t clusters = std::ssize(plan.clusters);
  return std::ssize(plan.rings) * clusters * 2 * (clusters - 1) <= kMostAveragingMessages;
}

RoundRate round_rate(const Planned& planned) {
  return planned.costs.averaging.rate(static_cast<int>(std::ssize(planned.members)));
}

StepProgram averaging_program(const TrainingTask& task, const NodePool& pool, const Planned& planned,
                              int fragments) {
  if (planned.members.size() < 2) return {};
  std::vector<AverageRing> rings;
  for (const Ring& ring : planned.plan.rings) {
    AverageRing& made = rings.emplace_back();
    // Two members send each byte once.
    made.bytes = round_bytes(task.settings, load_of(ring), 2) / fragments;
    for (std::size_t c = 0; c < planned.members.size(); ++c)
      made.nodes.push_back(planned.members[c][ring.stages[c]]);
  }
  std::vector<double> connections;  // by machine
  for (int node = 0; node < pool.size(); ++node) {
    if (pool.machine(node) == std::ssize(connections)) connections.push_back(connection(pool, node));
  }
  return averaging_round(rings, std::move(connections), [&](int from, int to) {
    FlowWay made = way(pool, from, to);
    made.from = pool.machine(from);
    made.to = pool.machine(to);
    return made;
  });
}

double averaging_seconds(const TrainingTask& task, const NodePool& pool, const Planned& planned,
                         double step_seconds) {
  if (!averaging_is_simulated(planned.plan)) return planned.plan.predicted_averaging_ms / 1e3;
  return exposed_seconds(round_rate(planned), simulated_rounds(task, pool, planned), step_seconds);
}

Simulation simulate(const TrainingTask& task, const NodePool& pool, const Planned& planned,
                    const SimulationOptions& options) {
  return Simulator(task, pool, planned, options).run();
}

}  // namespace rookery
