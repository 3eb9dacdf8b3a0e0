// Chooses which back end serves each op, on the whole graph, before it is cut. The choice is kept with the
// plan, so that every cut computes the same bits on processors of one kind.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "models/graph/graph.hpp"

namespace rookery {

class MeasuredKernels;  // measured.hpp

// By name of the op, "backend" or "backend/variant": "eigen", "onednn", "onednn/direct", "simd", …
// Gradient ops without an entry of their own ("conv1.ConvGradInput") follow their forward op.
using KernelChoice = std::map<std::string, std::string>;

// The entry for an op of a training graph. ConfigError naming the op when there is none, unless every back
// end computes the same bits: conversions of layout and sums of gradients need no entry, and are "simd".
const std::string& chosen_kernel(const KernelChoice& choice, const Op& op);
// Names of the graph's ops whose entry asks for the blocked layout.
std::set<std::string> chosen_blocked(const KernelChoice& choice, const Graph& graph);
// The op of the forward graph that an entry belongs to.
std::string chosen_op(const Graph& forward, const std::string& entry);

// Chooses kernels and layouts for the whole model at this micro-batch size, from what this program was
// built with, by rules; the same on every machine that has the same instruction sets. With `measured`,
// large convolutions and products are chosen by measurement.
KernelChoice choose_kernels(const Graph& graph, std::int64_t micro_batch,
                            MeasuredKernels* measured = nullptr);

struct KeptKernels {
  KernelChoice choice;
  std::set<std::string> replaced;  // ops of the forward graph that are not computed as before
};
// The choice of a run that goes on: the kernels of `before` where this machine and micro-batch size have
// them, and those of `now` in the place of the others.
KeptKernels keep_kernels(const Graph& graph, std::int64_t micro_batch, const KernelChoice& before,
                         const KernelChoice& now);

}  // namespace rookery
