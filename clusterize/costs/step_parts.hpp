// A step of a cluster is made of these parts, by the formulas of cost_model.hpp:
//   step = round trip + (M - 1) period + update + exchange
//   step = period + exchange                                async: updates are in the period
#pragma once

#include <vector>

#include "clusterize/costs/cost_model.hpp"

namespace rookery {

struct StepParts {
  double round_trip = 0;  // all in seconds
  double period = 0;
  double update = 0;
  double exchange = 0;
  std::vector<double> work;         // by stage: of a micro-batch, forward and backward
  std::vector<double> transfers;    // by stage: to the next one and back, a micro-batch's
  std::vector<double> link_busy;    // by stage: of these, the slower direction without latency
  std::vector<double> connections;  // by stage: what its connection needs for a micro-batch
};

StepParts step_parts(const CostModel& model, const std::vector<int>& members, const StagePartition& cut);

}  // namespace rookery
