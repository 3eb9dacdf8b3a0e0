#include "models/runtime/weight_versions.hpp"

namespace rookery {

WeightVersions::WeightVersions(std::size_t bytes, Device& device) : device_(device), is_newest_{true} {
  copies_.push_back(AlignedBuffer::unwritten(bytes, device));
}

void WeightVersions::stash(int slots) {
  while (std::ssize(copies_) < slots) copies_.emplace_back(bytes(), device_);
  is_newest_.resize(copies_.size(), false);
}

void WeightVersions::refresh(std::size_t slot) {
  if (copies_.size() == 1 || is_newest_[slot]) return;
  if (bytes() > 0) device_.copy(newest(), copies_[slot].data(), bytes());
  is_newest_[slot] = true;
}

void WeightVersions::begin_update(std::size_t slot) {
  if (copies_.size() == 1) return;
  refresh(slot);
  newest_ = slot;
  is_newest_.assign(copies_.size(), false);
  is_newest_[slot] = true;
}

}  // namespace rookery
