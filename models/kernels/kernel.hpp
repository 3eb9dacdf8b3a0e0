// The arithmetic of one op on given types. Back ends:
//   eigen   every op, plain and portable: the reference, and the fallback (kernels/eigen)
//   onednn  matrix products, convolutions and recurrent layers (kernels/onednn)
//   simd    our loops: small shapes, element-wise work, Winograd, attention, norms, softmax, losses, pooling;
//           compiled for several instruction sets and dispatched at run time (kernels/simd)
//
// Which of them serves an op is chosen on the whole graph (choose.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

// All that changes from micro-batch to micro-batch.
struct StepContext {
  std::int64_t step = 0;  // update counter, from 0
  int micro_batch = 0;    // within the step, of all clusters
  float loss_weight = 1;  // share of this micro-batch in the batch's mean loss
  std::uint64_t stream() const {
    return (static_cast<std::uint64_t>(step) << 20) | static_cast<std::uint64_t>(micro_batch);
  }
};

// Made in two steps: describe_kernel() gives what a planner asks, from the op and its types alone and without
// the device; prepare() makes it what run() needs.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Generates code, or loads it; once more does nothing. Before the first run().
  virtual void prepare() {}
  // Memory that run() may scribble on, aligned to kAlignment.
  virtual std::size_t scratch_bytes() const { return 0; }
  // Bytes that a library keeps for it, generated code and all: an estimate.
  virtual std::size_t library_bytes() const { return 0; }
  // Inputs and outputs in the op's order; absent ones have data == nullptr. Does not allocate.
  // The same kernel is never run by two threads at once.
  virtual void run(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs,
                   std::byte* scratch, const StepContext& context) = 0;
};

struct KernelRequest {
  const Op& op;
  std::span<const TensorType> inputs;   // f32[] where absent
  std::span<const TensorType> outputs;  // f32[] where absent
  std::uint64_t seed = 0;               // of the run, for random ops
  // The form of the kernel that is asked for, as words joined by "-"; empty: the back end's own rule.
  // "blocked": images in blocks of channels (models/graph/op_attributes.hpp). "direct", "winograd", "places":
  // the algorithm of a convolution; "places" multiplies matrices for pairs of an input place and an output
  // place (simd/places.cpp). "pointwise": one product over all places, for the gradient of the weight of 1 x
  // 1 windows (simd/pointwise.cpp). "bf16": numbers rounded to bf16 (precision.hpp).
  std::string variant = {};

  bool asks_for(std::string_view word) const;
};

// The kernel of a choice ("backend" or "backend/variant"), or where that back end lacks the op of the
// first in {onednn, eigen} that has one. ConfigError naming op and types when none has. It is not prepared.
std::unique_ptr<Kernel> describe_kernel(const std::string& choice, const KernelRequest& request);
// Only this; nullptr where the back end does not serve the request in this variant.
std::unique_ptr<Kernel> describe_kernel_of(const std::string& choice, const KernelRequest& request);
// The same, prepared.
std::unique_ptr<Kernel> make_kernel(const std::string& choice, const KernelRequest& request);
std::unique_ptr<Kernel> make_kernel_of(const std::string& choice, const KernelRequest& request);

// Does the variant of a choice ("backend/variant") have this word?
bool asks_for(const std::string& choice, std::string_view word);

// Names of the back ends in this program, best first.
const std::vector<std::string>& backends();

}  // namespace rookery
