// What a step of a cluster is made of, by the formulas of cost_model.hpp:
//   step = round trip + (M - 1) period + update + exchange
//   step = period + exchange                                async: updates are in the period
#pragma once

#include <cstdint>
#include <vector>

#include "clusterize/cost_model.hpp"

namespace rookery {

// What sets the period, the time from one micro-batch to the next.
enum class PeriodLimit : std::uint8_t {
  kNothing,     // a single micro-batch: none follows
  kNode,        // a stage's work
  kLink,        // a transfer from a stage to the next, or back
  kConnection,  // all that a node's connection carries one way
  kInFlight,    // so few micro-batches may be under way that a stage waits for their round trip
};

struct StepParts {
  double round_trip = 0;  // all in seconds
  double period = 0;
  double update = 0;
  double exchange = 0;
  PeriodLimit limit = PeriodLimit::kNothing;
  int limit_stage = 0;              // which node, connection, or link from it to the next stage
  int limit_last = 0;               // kInFlight: where the batches turn that it waits for
  std::vector<double> work;         // by stage: of a micro-batch, forward and backward
  std::vector<double> transfers;    // by stage: to the next one and back, a micro-batch's
  std::vector<double> link_busy;    // by stage: of these, the slower direction without latency
  std::vector<double> connections;  // by stage: what its connection needs for a micro-batch
};

StepParts step_parts(const CostModel& model, const std::vector<int>& members, const InnerCut& cut);

}  // namespace rookery
