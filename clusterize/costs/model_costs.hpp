// A model as the planner sees it: a row of segments, the pieces between its legal cut positions, with
// what each costs per micro-batch. Of many positions those that are of least use are left out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "clusterize/costs/averaging/averaging_costs.hpp"
#include "clusterize/costs/memory_model.hpp"
#include "clusterize/profile/by_threads.hpp"
#include "clusterize/profile/op_profile.hpp"
#include "models/graph/graph.hpp"
#include "models/kernels/choose.hpp"
#include "trainer/encoding/edge_encoding.hpp"
#include "trainer/schedule/schedule.hpp"
#include "trainer/settings/batch_sizes.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// Work is counted in operations that a machine does at its sustained speed: what takes t seconds on a machine
// of s FLOP/s is t·s of them, whether they are arithmetic or waits for memory.
struct SegmentWork {
  double forward_flops = 0;
  double backward_flops = 0;
  double update_flops = 0;  // of a step

  SegmentWork& operator+=(const SegmentWork& more) {
    forward_flops += more.forward_flops;
    backward_flops += more.backward_flops;
    update_flops += more.update_flops;
    return *this;
  }
};

struct Segment {
  OpId begin = 0;  // first op
  SegmentWork work;
  std::int64_t parameters = 0;  // elements
  std::int64_t parameter_bytes = 0;
  std::int64_t averaged_buffers = 0;  // elements of buffers that clusters average, as they do parameters
  // Bytes, as they travel, of the values that come from earlier segments and are used here or later. A value
  // that skips stages is counted at every boundary that it passes.
  double activation_bytes = 0;  // forward
  double gradient_bytes = 0;    // backward
};

// A parameter that several segments use: once a step, each stage that has one of them sends its gradient
// to the one before, and gets its new value from there.
struct SharedSegments {
  std::vector<int> segments;  // rising
  double bytes = 0;
};

// The speed of a thread of a node that does not give its gflops, where no profile says how fast this machine
// is: of a core that begins two fused multiply-adds of eight numbers in each cycle, at 3.1 GHz.
constexpr double kAssumedGflops = 100;

// What a profile says of machines with a number of threads.
struct ThreadCosts {
  double gflops = 0;              // of the machine where it was measured
  std::vector<SegmentWork> work;  // by segment
};

// The settings of a training that decide about its memory.
struct Training {
  std::int64_t batch_size = 1;
  int micro_batches = 1;
  std::string recompute;
  std::optional<int> max_staleness;
  std::optional<int> in_flight;
  std::string schedule = ScheduleSettings().name;
};

struct ModelCosts {
  std::string name;                // for messages
  std::vector<Segment> segments;   // with the work of one thread, or the fewest that were measured
  ByThreads<ThreadCosts> threads;  // where times were measured
  std::vector<SharedSegments> shared;
  bool waits_for_norm = false;
  AveragingCosts averaging;
  std::int64_t batch_size = 1;
  int micro_batches = 1;
  ScheduleSettings schedule;
  int chunks = 1;  // stages that each machine of a cluster gets: machine_order.hpp
  std::shared_ptr<const MemoryModel> memory;
  double most_kept_bytes = 0;  // no stage keeps more of samples (Reconstructions)
  // A stage may compute activations again where `may_recompute`, and must where it `must_recompute`.
  bool may_recompute = false;
  bool must_recompute = false;

  // The same model trained otherwise, for advice; may be empty.
  std::function<ModelCosts(const Training& training)> trained;

  int count() const { return static_cast<int>(segments.size()); }
  // The most machines of a cluster, each of which has `chunks` stages where there are several.
  int most_machines() const { return std::max(1, count() / chunks); }
  // The speed of a node with so many threads that does not give it.
  double assumed_gflops(int node_threads) const;
  // What the update of a stage takes of the one that was measured: async, most predict weights, too.
  double update_factor(int stage, int stages) const;
  // By segment, for a node with so many threads.
  std::vector<SegmentWork> work(int node_threads) const;
  // Micro-batches that a stage has memory for in any plan, and that its plan may choose to have in flight.
  // The search asks for the memory of the first and counts on the time of the second, for which most plans
  // have memory, too.
  int slots(int stage, int stages) const { return rookery::slots(schedule, stage, stages, micro_batches); }
  int most_slots(int stage, int stages) const {
    return most_in_flight(schedule, stage, stages, micro_batches);
  }
  // Bytes of segments [first, last) with one slot, activations computed again where that is allowed.
  std::int64_t least_bytes(int first, int last) const {
    return memory->bytes({.first = first, .last = last, .slots = 1, .recompute = may_recompute});
  }
};

// Planning takes time with the square of the number of segments.
constexpr int kMostSegments = 100;

// The costs of a graph that ends in its loss, at the micro-batch size of `settings`, on nodes with these
// numbers of threads. Work is what `profile` measured, and nodes without gflops are taken to be like its
// machine; else it is estimated. The memory is that of stage_memory.hpp, which keeps copies of the arguments,
// in plans of at most `clusters` clusters.
ModelCosts model_costs(const Graph& graph, const TrainingSettings& settings, const DataSizes& data,
                       const KernelChoice& kernels, const OpProfile* profile = nullptr,
                       int most_segments = kMostSegments, const std::set<int>& threads = {1},
                       int clusters = 2);

// The same of stages that begin at these segments, between which what crosses is encoded as on their links.
ModelCosts with_transport(ModelCosts costs, const Graph& graph, const TrainingSettings& settings,
                          const std::vector<int>& begins, const EdgeEncoding& encoding);

}  // namespace rookery
