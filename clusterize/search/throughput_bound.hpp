// The bound says how good any plan can be.
#pragma once

#include "clusterize/costs/throughput_model.hpp"

namespace rookery {

// No plan has more samples per second. For every number C of clusters and slowest message m: the nodes of a
// ring are connected by ways on which its bytes pass within m, so that only nodes count of which at least C
// are; each of these does, within a step S, at most the run of segments that its speed computes and that its
// connection averages in that time, and C models' work has to be done. The shortest such S gives the samples
// per second C · batch / (S + 2 (C - 1) m). C and m are taken in intervals of a few per cent.
double throughput_bound(const ThroughputModel& model);

}  // namespace rookery
