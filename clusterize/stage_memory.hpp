// What a range of segments takes on one machine, remembered: the search asks for the same ranges
// again and again.
#pragma once

#include <cstdint>
#include <map>
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

  std::int64_t bytes(int first, int last, int slots);

 private:
  Stage stage(int first, int last) const;

  Graph graph_;
  std::vector<OpId> begins_;
  TrainingSettings settings_;
  CompileOptions options_;  // slots apart
  std::map<std::tuple<int, int, int>, std::int64_t> known_;
};

}  // namespace rookery
