// A step as providers have traced it (work_trace.hpp), for drawing beside the simulated one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "clusterize/plan/cluster_plan.hpp"
#include "trainer/schedule/work_trace.hpp"

namespace rookery {

// What one node did in it; seconds count from the step's beginning on the first of all nodes to begin.
struct MeasuredRow {
  std::string node;
  int cluster = 0;
  int stage = 0;
  std::vector<TracedAction> actions;  // in their order; `batch` counts from the first step drawn
};

struct MeasuredStep {
  std::int64_t step = 0;          // of the run: the first that is drawn
  std::int64_t steps = 1;         // from there on
  double seconds = 0;             // to its end on the last of all nodes
  std::vector<MeasuredRow> rows;  // by cluster and stage
};

// Of all steps that all of these traces have whole, with as many micro-batches as a whole batch has, the one
// of median length; `steps` that follow each other where it is several. ConfigError naming the file that is
// of another plan or of a node that is there twice, or where there is no such step.
MeasuredStep measured_step(const std::vector<std::filesystem::path>& files, const ClusterPlan& plan,
                           std::int64_t steps);

}  // namespace rookery
