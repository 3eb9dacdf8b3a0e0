// A step of a cluster is made of these parts, by the formulas of throughput_model.hpp:
//   step = round trip + (M - 1) period + update + exchange
//   step = M period + exchange                              async: a period has a part of the update
// Where machines have several stages their orders (machine_order.hpp) decide, and the period is what each
// further micro-batch adds to the round trip as these run while nothing waits on its way. Where F, B and W
// are a machine's, the same on all S of them, and nothing is long on its way, the step comes to
//   M (F + B + W) + (S - 1) (F + B) / v    interleaved of v stages each (arXiv 2104.04473)
//   M (F + B + W)                          zbv, F = B = W and M at least 2 S - 1 (arXiv 2401.10241); with
//                                          the filling, (S - 1) F / 2, where steps wait for a norm
// and otherwise to the work of the machine that has the most, with what the order waits for. The period is
// no less than what a connection carries of all the stages of its machine, but for what these send each
// other. Where connections are the busiest, orders wait for these, too, and the step that the schedule takes
// may be longer than this one.
#pragma once

#include <vector>

#include "clusterize/costs/throughput_model.hpp"

namespace rookery {

struct StepParts {
  double round_trip = 0;  // all in seconds
  double period = 0;
  double update = 0;
  double exchange = 0;
  double step = 0;
  // That the period were if nothing had to wait for one of those in flight, or for its turn, in a pipeline
  // that is full: of the busiest machine, way or connection.
  double busiest = 0;
  std::vector<double> work;       // by stage: of a micro-batch, forward and backward
  std::vector<double> updates;    // by stage; async: a micro-batch's part
  std::vector<double> transfers;  // by stage: to the next one and back, a micro-batch's
};

// With as many in flight as `schedule` says, which is that of the model's costs, perhaps with a plan's
// choice.
StepParts step_parts(const ThroughputModel& model, const std::vector<int>& members, const StagePartition& cut,
                     const ScheduleSettings& schedule);

// The fewest in flight, by stage, with which the busiest part never waits, were it `haste` times as fast:
//   (Σ T + Σ (X forward + X backward)) / (n_k - n_m + 1) ≤ busiest / haste      over all rows of stages k < m
// and no fewer than without a choice, which is what a plan may fall back to. Where more are needed than may
// be chosen: as many as may be; async those with which every row waits alike. With chunks always
// those without a choice; others are in possible_in_flight() of trainer/schedule/machine_order.hpp.
std::vector<int> needed_in_flight(const StepParts& parts, const ScheduleSettings& schedule, int micro_batches,
                                  double haste = 1);

}  // namespace rookery
