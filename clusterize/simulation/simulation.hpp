// A plan's training, simulated event by event: how long it takes, and what each machine and link does
// meanwhile.
//
// Every node runs the actions of its schedule (step_program.hpp), transfers share connections
// (flow_network.hpp). A step begins on all nodes of all clusters when the one before has ended on all, and
// with it the averaging between clusters that steps wait for (averaging_costs.hpp); where steps overlap, an
// epoch does, and its steps are taken to last as long as those of a filled pipeline. Clusters train their
// shares of every step's samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/pool/node_pool.hpp"
#include "clusterize/simulation/step_simulation.hpp"

namespace rookery {

struct SimulationOptions {
  std::optional<int> epochs = std::nullopt;  // instead of the settings'
  std::uint64_t seed = 42;
  // In every step every machine, with this probability, computes so many times as slowly.
  double straggler_share = 0;
  double straggler_factor = 1;
  // The rate at which every machine fails, as a Poisson process. A failure ends the run of all: the others
  // notice after peer_timeout_seconds, and providers that are started again go on from the last checkpoint,
  // or begin with the first step where none are made. Time starts to count anew `restart_seconds` later.
  double failures_per_hour = 0;
  double restart_seconds = 60;
};

// The time and traffic of a node in one step of a full batch without stragglers. Of a machine with several
// stages each is a node, whose numbers add up to the machine's.
struct NodeUse {
  std::string node;
  int cluster = 0;
  int stage = 0;
  double computing = 0;  // shares of the step
  double sending = 0;    // of what its machine's connection could carry out
  double receiving = 0;  // and in
};

// From one machine to another, called by the nodes of their first stages, in the same step.
struct LinkUse {
  std::string from, to;
  int from_cluster = 0;  // to another cluster: averaging
  int to_cluster = 0;
  double bytes = 0;
  double used = 0;  // share of what the link could carry in the step
};

struct FailureOutcome {
  std::int64_t failures = 0;
  std::optional<double> seconds;  // to finish; nothing after kMostFailures
  double lost_seconds = 0;        // of these: work done in vain, noticing and starting again
  double expected_seconds = 0;    // mean over all that might happen; infinite beyond what a double holds
};
constexpr std::int64_t kMostFailures = 10'000;

struct Simulation {
  int epochs = 0;
  std::int64_t steps = 0;
  std::int64_t samples = 0;  // trained on, all epochs
  double seconds = 0;        // of the run: training and validation, stragglers included
  double validation_seconds = 0;
  double samples_per_second = 0;  // while it trains
  // One step of a full batch without stragglers, averaging included, and the same as the throughput model has
  // it.
  double step_seconds = 0;
  double averaging_seconds = 0;
  double round_seconds = 0;  // on the average; of those that overlap steps more than these wait for
  double predicted_step_seconds = 0;
  double bubble_share = 0;              // of all machines' time in it: they do not compute
  std::vector<NodeUse> nodes;           // by cluster and stage
  std::vector<LinkUse> links;           // the most used first
  std::int64_t simulated_epochs = 0;    // the others are taken to last as long on average
  std::int64_t simulated_actions = 0;   // instructions of all processes
  bool averaging_is_estimated = false;  // by the throughput model, because there would be too many messages
  std::optional<FailureOutcome> failures;
};

// The cluster as its providers will run it. `pool` is the plan's.
PipelineModel pipeline_model(const TrainingTask& task, const NodePool& pool, const Planned& planned,
                             std::size_t cluster);
// The number of stages of the plan's longest cluster.
std::size_t most_stages(const Planned& planned);
// Batches of so many micro-batches that fill the pipeline where they follow each other: as many micro-batches
// as there are stages, or in flight on the first one.
std::size_t batches_to_fill(const PipelineModel& model, std::size_t micro_batches);
// Batches of a step; where steps overlap, enough to fill the pipeline, and to go on so for a while.
std::int64_t batches_to_simulate(const PipelineModel& model, std::size_t micro_batches);
// The cluster's program for so many batches of as many samples, or of the most.
StepProgram program_of_batches(const TrainingSettings& settings, const PipelineModel& model,
                               std::int64_t batches, std::int64_t samples);
StepProgram program_of_full_batches(const TrainingSettings& settings, const PipelineModel& model,
                                    std::int64_t batches);
// Steps of that program that are alike: the whole run, which is one; or where steps overlap those while the
// pipeline is full, which `fill` batches make it.
struct FullSpan {
  double begin = 0;
  double end = 0;
  double steps = 1;
  double step_seconds() const { return (end - begin) / steps; }
};
FullSpan full_span(const StepRun& run, std::size_t fill);
// Seconds of one of the cluster's steps, with a batch of so many samples.
double simulated_step_seconds(const TrainingTask& task, const NodePool& pool, const Planned& planned,
                              std::size_t cluster, std::int64_t samples);
// False where the rings would send too many messages; the throughput model's prediction stands for it then.
bool averaging_is_simulated(const ClusterPlan& plan);
// Rounds per step of the plan's clusters.
RoundRate round_rate(const Planned& planned);
// A round of one of so many fragments. Nothing to average: an empty program.
StepProgram averaging_program(const TrainingTask& task, const NodePool& pool, const Planned& planned,
                              int fragments);
// That a step of so many seconds waits for rounds, on the average: simulated, or predicted where these are
// not.
double averaging_seconds(const TrainingTask& task, const NodePool& pool, const Planned& planned,
                         double step_seconds);

// A function of its arguments alone.
Simulation simulate(const TrainingTask& task, const NodePool& pool, const Planned& planned,
                    const SimulationOptions& options);

}  // namespace rookery
