// The memory of the stages of a model, by compiling them, or estimated from ranges of a few segments. What is
// found out is remembered, because the search asks for the same ranges again and again.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "clusterize/costs/memory_model.hpp"
#include "models/graph/stage.hpp"
#include "models/kernels/choose.hpp"
#include "models/runtime/compile/described_kernels.hpp"
#include "models/runtime/executable.hpp"
#include "trainer/encoding/edge_encoding.hpp"
#include "trainer/settings/batch_sizes.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// Buffers of a stage's link: everything that a micro-batch, or the end of a step, brings or takes away, as
// often as it may be under way (transfers()), and what is encoded and decoded; with what is kept of samples
// (Reconstructions).
std::int64_t transport_bytes(const Stage& stage, std::int64_t micro_batch,
                             const ScheduleSettings& schedule = {}, int micro_batches = 1,
                             const EdgeEncoding& encoding = {});

// The memory that a range of segments takes, by measurement and by estimate: two functions of the arguments
// alone, that may be called by several threads at once. `slots`: up to the most of any stage of a cluster
// that has no more stages than there are segments.
class StageMemory {
 public:
  static constexpr int kWindow = 6;

  // `begins`: first op of every segment. Of nodes with so many threads, whatever ranges say, in a plan of at
  // most so many clusters.
  StageMemory(Graph graph, std::vector<OpId> begins, TrainingSettings settings, DataSizes data,
              const KernelChoice& kernels, int threads, int clusters);

  // From a stage that is compiled.
  std::int64_t measured(const StageRange& range);
  // From ranges of up to kWindow segments alone: what a segment adds to a longer one is taken to be what it
  // adds to those directly before it, and micro-batches in flight to take as much each.
  std::int64_t estimated(const StageRange& range);

  int segments() const { return static_cast<int>(begins_.size()); }
  int most_slots() const { return most_slots_; }

 private:
  // Bytes of a range. Of `fixed`, `stash` and `version` every segment adds its own.
  struct Parts {
    double fixed = 0;      // state and compiled ops
    double stash = 0;      // of a micro-batch in flight
    double version = 0;    // of the weights, besides the newest
    double workspace = 0;  // the largest counts
    double transport = 0;  // depends on both ends
    double received = 0;   // what is kept of samples (Reconstructions) that come
    double sent = 0;       // and of those that go
  };
  struct Estimate {
    std::vector<std::vector<Parts>> windows;  // by length less one and first segment
    // Sums of what the last segment of a whole window adds to those before it, by the window's first one.
    std::vector<Parts> growth;
  };
  // Bytes by range, slots and recompute, for a search that asks for millions; 0 where nothing is known.
  class Table {
   public:
    Table(int segments, int most_slots);
    std::atomic<std::int64_t>& at(const StageRange& range);

   private:
    std::size_t segments_, most_slots_;
    std::vector<std::atomic<std::int64_t>> bytes_;
  };
  // A parameter of two segments that are in no window together: one copy in a range of both.
  struct Tied {
    int first = 0, last = 0;
    std::int64_t bytes = 0;
  };

  Stage stage(int first, int last) const;
  double under_way(int slots) const;                 // of a tensor at a time, in pairs
  std::int64_t transport(const Stage& stage) const;  // with a pair of each
  std::int64_t reconstructions(const Stage& stage) const;
  CompileOptions options(int slots, bool recompute) const;
  CompileOptions options_of(const Stage& stage, int slots, bool recompute) const;
  std::vector<Parts> windows(int length, bool recompute) const;
  const Estimate& estimate(bool recompute);
  std::int64_t estimate_of(const StageRange& range);
  void find_tied();

  Graph graph_;
  std::vector<OpId> begins_;
  TrainingSettings settings_;
  EdgeEncoding encoding_;
  std::int64_t data_bytes_;
  int threads_;
  const DescribedKernels processor_{host_processor()};
  CompileOptions options_;  // apart from slots and recompute
  bool may_update_ahead_;
  std::vector<Tied> tied_;
  int most_slots_;
  Table measured_;
  Table estimated_;
  std::mutex estimates_mutex_;
  std::map<bool, Estimate> estimates_;  // by recompute
};

// Exact for models of up to so many segments; those of more have more ranges than can be compiled in a user's
// time. Ranges of other numbers of threads than these take what of_threads() says.
constexpr int kExactSegments = 60;
std::shared_ptr<const MemoryModel> stage_memory(const Graph& graph, const std::vector<OpId>& begins,
                                                const TrainingSettings& settings, DataSizes data,
                                                const KernelChoice& kernels, const std::set<int>& threads,
                                                int clusters);

}  // namespace rookery
