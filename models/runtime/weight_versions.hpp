// The weights of a stage, in one version, or in as many as there are micro-batches in flight: where updates
// come between a micro-batch's forward and its backward, both are to use the same (weight stashing,
// PipeDream, arXiv 1806.03377). Internal to this module.
#pragma once

#include <vector>

#include "models/tensor/tensor.hpp"

namespace rookery {

class WeightVersions {
 public:
  // One version, for all slots; its memory is written by who has the weights.
  WeightVersions(std::size_t bytes, Device& device);
  // From here on every slot has a copy of its own. Addresses change.
  void stash(int slots);

  std::byte* newest() { return copies_[newest_].data(); }
  std::byte* of_slot(std::size_t slot) { return copies_[copies_.size() == 1 ? 0 : slot].data(); }
  std::size_t bytes() const { return copies_.front().size(); }

  // Before a forward in this slot: gives it the newest weights.
  void refresh(std::size_t slot);
  // Before an update, which writes newest(): moves that to the slot, whose micro-batch is done, so that the
  // versions of others stay.
  void begin_update(std::size_t slot);

 private:
  Device& device_;
  std::vector<AlignedBuffer> copies_;  // by slot
  std::vector<bool> is_newest_;        // by slot
  std::size_t newest_ = 0;
};

}  // namespace rookery
