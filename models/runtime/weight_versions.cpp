#include "models/runtime/weight_versions.hpp"

#include <algorithm>
#include <utility>

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
  if (begins_step) of_step_ = next_step();
  slots_.at(slot) = {.version = of_step_, .is_used = true};
}

void WeightVersions::release(std::size_t slot) {
  slots_.at(slot).is_used = false;
}

void WeightVersions::make_writable() {
  next_step_.reset();
  if (copies_.size() == 1 || is_unused(newest_)) return;
  const std::size_t next = unused();
  if (bytes() > 0) device_.copy(version(newest_), version(next), bytes());
  newest_ = next;
}

void WeightVersions::begin_update(std::optional<std::size_t> slot) {
  kept_.reset();
  make_writable();
  if (slot) release(*slot);  // not before: the newest might be copied onto the version that is still read
  if (copies_.size() > 1) kept_ = unused();
}

void WeightVersions::begin_with_kept(bool at_once) {
  ROOKERY_CHECK(kept_, "nothing is kept of an update of the weights");
  next_step_ = std::exchange(kept_, std::nullopt);
  if (at_once) of_step_ = *next_step_;
}

std::size_t WeightVersions::unused() const {
  std::size_t version = 0;
  while (version < copies_.size() && (version == newest_ || !is_unused(version))) ++version;
  ROOKERY_CHECK(version < copies_.size(), "all {} versions of the weights are in use", copies_.size());
  return version;
}

bool WeightVersions::is_unused(std::size_t version) const {
  return version != of_step_ && version != next_step_ && version != kept_ &&
         std::ranges::none_of(slots_,
                              [&](const Slot& slot) { return slot.is_used && slot.version == version; });
}

}  // namespace rookery
