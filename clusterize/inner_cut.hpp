// The best cut of a model for machines in a given order: exact dynamic programming over (stage,
// segment).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "clusterize/model_costs.hpp"

namespace rookery {

// One machine of the row, and the way to the next one.
struct CutMachine {
  double flops_per_second = 1;
  double memory_bytes = std::numeric_limits<double>::infinity();
  double next_bytes_per_second = std::numeric_limits<double>::infinity();  // the last one's is not used
};

// Every op costs this much more than its arithmetic, in each direction.
constexpr double kSecondsPerOp = 2e-6;

// Seconds for segments [first, last) per micro-batch.
double forward_seconds(const ModelCosts& costs, int first, int last, double flops_per_second);
double backward_seconds(const ModelCosts& costs, int first, int last, double flops_per_second);

struct InnerCut {
  std::vector<int> begins;      // first segment of every stage; begins[0] = 0
  std::vector<bool> recompute;  // by stage: does it run forward twice?
  int empty_stages = 0;         // without parameters
  double bottleneck = 0;        // seconds: largest of the stages' arithmetic and the boundaries' transfers
  double transfer = 0;          // seconds over all boundaries
};

// The legal cut into one stage per machine in which every stage fits its machine's memory, and of
// these the one with the fewest stages without parameters, then the smallest bottleneck, then the
// smallest sum of transfers; of equals, the one whose last stages begin earliest. A stage that fits
// only so recomputes activations, where the costs allow it. Nothing when no cut fits.
std::optional<InnerCut> inner_cut(const ModelCosts& costs, const std::vector<CutMachine>& machines);

}  // namespace rookery
