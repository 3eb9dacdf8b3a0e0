// What a range of segments takes on one machine, remembered: the search asks for the same ranges
// again and again.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "models/graph/stage.hpp"
#include "models/kernels/kernel.hpp"
#include "models/runtime/executable.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// Buffers of a stage's link: everything that a micro-batch, or the end of a step, brings or takes away,
// once on its way in and once on its way out.
std::int64_t transport_bytes(const Stage& stage, std::int64_t micro_batch);

// All members may be called by several threads at once. Ranges are those of a stage, with its link and, where
// `first` is 0, with the data set.
class StageMemory {
 public:
  // Models of more segments have more ranges than can be compiled in a user's time.
  static constexpr int kExactSegments = 60;
  static constexpr int kWindow = 6;

  // `begins`: first op of every segment.
  StageMemory(Graph graph, std::vector<OpId> begins, TrainingSettings settings, DataSizes data,
              const KernelChoice& kernels);

  // What is known of the range; else of a model of many segments an estimate, and of others what it is.
  std::int64_t bytes(int first, int last, int slots, bool recompute);
  // What it is, from a stage that is compiled; known from then on. Estimates that turn out too low are
  // raised, all of them.
  std::int64_t measured(int first, int last, int slots, bool recompute);
  // From ranges of up to kWindow segments alone: what a segment adds to a longer one is taken to be what it
  // adds to those directly before it, and micro-batches in flight to take as much each.
  std::int64_t estimated(int first, int last, int slots, bool recompute);

  int segments() const { return static_cast<int>(begins_.size()); }
  bool is_estimated() const { return segments() > kExactSegments; }

 private:
  // Bytes of a range. Of `fixed` and `stash` every segment adds its own.
  struct Parts {
    double fixed = 0;      // state and compiled ops
    double stash = 0;      // of a micro-batch in flight
    double workspace = 0;  // the largest counts
    double transport = 0;  // depends on both ends
  };
  struct Estimate {
    std::vector<std::vector<Parts>> windows;  // by length less one and first segment
    // Sums of what the last segment of a whole window adds to those before it, by the window's first one.
    std::vector<Parts> growth;
  };
  // A parameter of two segments that are in no window together: one copy in a range of both.
  struct Tied {
    int first = 0, last = 0;
    std::int64_t bytes = 0;
  };

  Stage stage(int first, int last) const;
  std::int64_t transport(const Stage& stage) const;
  MemoryUse use_of(const Stage& stage, int slots, bool recompute) const;
  std::vector<Parts> windows(int length, bool recompute) const;
  const Estimate& estimate(bool recompute);
  void find_tied();

  Graph graph_;
  std::vector<OpId> begins_;
  TrainingSettings settings_;
  std::int64_t data_bytes_;
  CompileOptions options_;  // apart from slots and recompute
  std::vector<Tied> tied_;
  std::mutex mutex_;
  std::map<std::tuple<int, int, int, bool>, std::int64_t> known_;
  double raised_ = 1;  // factor of estimates
  std::mutex estimates_mutex_;
  std::map<bool, Estimate> estimates_;  // by recompute
};

}  // namespace rookery
