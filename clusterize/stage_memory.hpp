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

class StageMemory {
 public:
  // `begins`: first op of every segment.
  StageMemory(Graph graph, std::vector<OpId> begins, TrainingSettings settings, DataSizes data,
              const KernelChoice& kernels);

  // With the data set where `first` is 0. May be called by several threads at once.
  std::int64_t bytes(int first, int last, int slots, bool recompute);

 private:
  Stage stage(int first, int last) const;

  Graph graph_;
  std::vector<OpId> begins_;
  TrainingSettings settings_;
  std::int64_t data_bytes_;
  CompileOptions options_;  // apart from slots and recompute
  std::mutex mutex_;
  std::map<std::tuple<int, int, int, bool>, std::int64_t> known_;
};

}  // namespace rookery
