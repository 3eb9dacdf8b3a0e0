#include "models/runtime/weight_versions.hpp"

#include <algorithm>

#include "models/base/check.hpp"

namespace rookery {

WeightVersions::WeightVersions(std::size_t bytes, Device& device) : device_(device) {
  copies_.push_back(AlignedBuffer::unwritten(bytes, device));
}

void WeightVersions::stash(int versions, int slots) {
  while (std::ssize(copies_) < versions) copies_.emplace_back(bytes(), device_);
  slots_.resize(static_cast<std::size_t>(slots));
}

void WeightVersions::take(std::size_t slot, bool begins_step) {
  if (begins_step) of_step_ = newest_;
  slots_.at(slot) = {.version = of_step_, .is_used = true};
}

void WeightVersions::release(std::size_t slot) {
  slots_.at(slot).is_used = false;
}

void WeightVersions::make_writable() {
  const auto is_free = [&](std::size_t version) {
    return version != of_step_ && std::ranges::none_of(slots_, [&](const Slot& slot) {
             return slot.is_used && slot.version == version;
           });
  };
  if (copies_.size() == 1 || is_free(newest_)) return;
  std::size_t next = 0;
  while (next < copies_.size() && !is_free(next)) ++next;
  ROOKERY_CHECK(next < copies_.size(), "all {} versions of the weights are in use", copies_.size());
  if (bytes() > 0) device_.copy(version(newest_), version(next), bytes());
  newest_ = next;
}

}  // namespace rookery
