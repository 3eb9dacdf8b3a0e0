// A memory model tells the planner how many bytes the stages of a model take. A model's ranges of segments
// are too many to compile them all, so that a plan may be searched by estimates; what is then measured of the
// plan that was found makes a better model (refine()). Both are values that never change: a plan is a
// function of its arguments.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace rookery {

// A stage of segments [first, last) with `slots` micro-batches in flight.
struct StageRange {
  int first = 0;
  int last = 0;
  int slots = 1;
  bool recompute = false;  // activations
  int threads = 1;         // each has scratch memory of its own
};

// All members may be called by several threads at once.
class MemoryModel {
 public:
  virtual ~MemoryModel() = default;
  // On one machine: the stage, the buffers of its link, and where `first` is 0 the data set.
  virtual std::int64_t bytes(const StageRange& range) const = 0;
  // Whether bytes() is what the stages take in truth.
  virtual bool is_exact() const { return true; }
  // The same model with what is learned from measuring these stages. nullptr where bytes() is exact.
  virtual std::shared_ptr<const MemoryModel> refine(std::span<const StageRange> /*stages*/) const {
    return nullptr;
  }
  // The same model by measurement alone, which takes time for every range that is asked for. nullptr
  // likewise.
  virtual std::shared_ptr<const MemoryModel> exact() const { return nullptr; }
};

}  // namespace rookery
