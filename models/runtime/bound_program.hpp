// The compiled variants of one mode, bound to their memory: for every slot the ops of each phase, with the
// addresses that they read and write. Internal to this module.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/runtime/arenas.hpp"
#include "models/runtime/executable.hpp"

namespace rookery {

class BoundProgram {
 public:
  // Stage and arenas outlive it. `accumulates`: a step may have several micro-batches.
  BoundProgram(const Stage& stage, std::vector<CompiledVariant> variants, int slots, bool accumulates,
               Arenas& arenas);
  ~BoundProgram();
  BoundProgram(BoundProgram&&) noexcept;

  // From here on micro-batches in this slot read these weights (weight_versions.hpp).
  void use_weights(std::size_t slot, std::size_t version);
  // BugError unless the micro-batch has a compiled size and one of the slots.
  void check(const MicroBatch& micro_batch) const;
  // `done`: Executable::GradientDone. `update` changes what changes in backward.
  using Update = std::function<void(const ParameterInBackward&)>;
  void run(Phase phase, const MicroBatch& micro_batch, const Executable::GradientDone& done = nullptr,
           const Update& update = nullptr);

  // What passes the stage's border, by the number of its input or output.
  enum class Port : std::uint8_t {
    kInput,
    kOutput,
    kOutputGradient,   // that arrives
    kPartialGradient,  // of an input, that arrives
    kInputGradient,    // to be sent
  };
  // Its place. BugError where there is no such gradient.
  TensorView view(Port port, std::size_t i, const MicroBatch& micro_batch) const;

  // Times every op of the first size from here on.
  void time_ops();
  std::vector<OpTime> op_times() const;

 private:
  struct BoundOp;
  struct BoundSlot;
  struct BoundVariant;

  void find_ports(BoundVariant& variant) const;
  BoundVariant bind(CompiledVariant compiled, int slots, std::size_t bytes_of_slot, bool accumulates) const;
  BoundOp bind_op(const BoundVariant& variant, std::size_t slot, OpId id, bool later) const;
  TensorView place(const BoundVariant& variant, std::size_t slot, ValueId id, bool accumulate = false) const;
  const BoundVariant& variant_of(const MicroBatch& micro_batch) const;

  const Stage& stage_;
  Arenas& arenas_;
  std::vector<BoundVariant> variants_;
  std::vector<double> op_seconds_;  // by OpId of the first variant; empty: nothing is timed
};

}  // namespace rookery
