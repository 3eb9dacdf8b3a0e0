// A step program is what every node of a cluster does in a step, as the providers do it: the actions of its
// schedule, what it waits for before each and sends after it, and what StepExchange adds at the end; and what
// the members of rings do to average.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "clusterize/simulation/flow_network.hpp"
#include "models/graph/stage.hpp"
#include "trainer/encoding/edge_encoding.hpp"
#include "trainer/schedule/machine_order.hpp"

namespace rookery {

enum class Work : char {
  kForward = 'F',
  kBackwardInputs = 'B',
  kBackwardWeights = 'W',
  kUpdate = 'U',
};

enum class MessageUse : std::uint8_t {
  kActivation,
  kGradient,
  kSharedGradient,
  kSharedValue,
  kNorm,
  kAverage
};

struct ProgramMessage {
  int from = 0;  // nodes
  int to = 0;
  std::size_t way = 0;
  double bytes = 0;
  MessageUse use = MessageUse::kActivation;
  int micro_batch = 0;
};

struct Instruction {
  enum class Kind : std::uint8_t { kCompute, kSend, kReceive };
  Kind kind = Kind::kCompute;
  Work work = Work::kForward;  // kCompute
  int batch = 0;
  int micro_batch = 0;  // of all batches; of an update its batch
  double seconds = 0;
  int message = 0;  // kSend, kReceive
};

// Processes run at the same time, each its instructions one after the other. At most one of a machine
// computes.
struct StepProgram {
  std::vector<double> connections;  // bytes per second
  std::vector<FlowWay> ways;        // between connections; all messages from one to another take the same
  std::vector<ProgramMessage> messages;
  std::vector<int> node_of;                        // by process
  std::vector<std::vector<Instruction>> programs;  // by process
  // By process, where machines have several (trainer/schedule/machine_order.hpp); empty: each has one of its
  // own.
  std::vector<int> machine_of;
  // By machine, where these have several processes: whose forwards, B and W it computes, one after the other.
  // A process waits for its turn, and the machine for the process. Updates, and everything of a machine
  // without an order, are computed as soon as nothing else is.
  std::vector<std::vector<int>> orders;

  int machine(std::size_t process) const {
    return machine_of.empty() ? static_cast<int>(process) : machine_of[process];
  }
  std::size_t machines() const { return machine_of.empty() ? programs.size() : orders.size(); }
};

// A stage of a cluster and its machine; seconds for a micro-batch of the full size.
struct StageWork {
  double forward = 0;
  double backward = 0;     // both phases; with the second forward where it recomputes
  bool recompute = false;  // then the first `forward` of backward comes before anything else
  double update = 0;
  double bytes_per_second = 0;  // of the machine's connection
};

// Where to and how much a stage sends at a time, as it travels.
struct StageRoutes {
  std::vector<std::int64_t> activation_bytes;  // by stage: of a micro-batch's forward
  std::vector<std::int64_t> gradient_bytes;    // by stage: of its backward
};
// The routes of all stages of a cluster, for micro-batches of `micro_batch` samples.
std::vector<StageRoutes> stage_routes(std::span<const Stage> stages, std::int64_t micro_batch,
                                      const EdgeEncoding& encoding = {});

// A cluster as the simulator sees it.
struct PipelineModel {
  ScheduleSettings schedule;
  std::vector<Stage> stages;
  std::vector<StageWork> work;              // by stage
  std::vector<std::vector<FlowWay>> links;  // by stage and stage; whose connections they take, programs tell
  std::int64_t micro_batch = 1;             // samples of the full size; smaller ones take their share
  bool clips_gradients = false;
  EdgeEncoding encoding = {};

  // Which stages share a machine.
  StagePlacement placement() const { return placement_of(schedule, static_cast<int>(stages.size())); }
};

// The program of a batch of micro-batches of these sizes, or of so many batches, each of these, that a stage
// begins when it has ended the one before: `micro_batch` counts those of all of them. More than one only
// where steps_overlap(). Node k holds stage k, process k is its compute thread. Machine m, that of stage m
// and of others where there are chunks, has connection m. What its own stages send each other takes none of
// that, but a connection behind those of all machines, as fast as their links.
StepProgram training_program(const PipelineModel& model, std::span<const std::int64_t> sizes,
                             int batches = 1);
// Does a stage begin a batch before all others have ended the one before, so that batches last less long one
// behind the other than alone? Async; and where W may come late, unless gradients are clipped by the norm of
// all. Of other synchronous schedules the first stage, which begins, ends last.
bool steps_overlap(const PipelineModel& model);
// Forward only; batches follow each other without a gap, so all of them may be given at once.
StepProgram validation_pass(const PipelineModel& model, std::span<const std::int64_t> sizes);

// A ring of nodes that average `bytes` by a ring all-reduce: 2 (C - 1) messages of bytes / C from each of
// its C members to the next (P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", 2009).
struct AverageRing {
  std::vector<int> nodes;
  double bytes = 0;
};
// All rings at once. `way` tells about two nodes; those between the same connections are one.
StepProgram averaging_round(std::span<const AverageRing> rings, std::vector<double> connections,
                            const std::function<FlowWay(int from, int to)>& way);

}  // namespace rookery
