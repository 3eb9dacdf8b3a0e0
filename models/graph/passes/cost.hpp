// The cost of every op in arithmetic and memory traffic, for planning.
#pragma once

#include <cstdint>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

// The cost of one op for one micro-batch.
struct OpCost {
  double forward_flops = 0;
  double backward_flops = 0;  // both backward phases
  double forward_bytes = 0;   // read and written
  double backward_bytes = 0;
  std::int64_t parameter_bytes = 0;  // of the parameters first used here
  std::int64_t parameters = 0;       // elements of the same
};

std::vector<OpCost> op_costs(const Graph& graph, std::int64_t micro_batch);

}  // namespace rookery
