// The weights of a stage, in one version, or in as many as micro-batches in flight need: where updates come
// between a micro-batch's forward and its backward, both are to use the same (weight stashing, PipeDream,
// arXiv 1806.03377). Internal to this module.
#pragma once

#include <optional>
#include <vector>

#include "models/tensor/tensor.hpp"

namespace rookery {

class WeightVersions {
 public:
  // One version, for all slots; its memory is written by who has the weights.
  WeightVersions(std::size_t bytes, Device& device);
  // From here on there are so many versions, and slots that use one each.
  void stash(int versions, int slots);

  std::byte* version(std::size_t number) { return copies_[number].data(); }
  std::size_t newest() const { return newest_; }
  std::size_t bytes() const { return copies_.front().size(); }

  // Before the forward of a micro-batch in this slot, which nobody used: it has the version of next_step(),
  // or, where it goes on with a step, the one that this step's micro-batch before it had. From here to
  // release() the slot's version stays.
  void take(std::size_t slot, bool begins_step);
  void release(std::size_t slot);
  std::size_t of_slot(std::size_t slot) const { return slots_[slot].version; }

  // The version of the step that begins next: the newest, or the one that is begin_with_kept()'s.
  std::size_t next_step() const { return next_step_.value_or(newest_); }

  // Before version(newest()) is written: moves it to a copy that neither a slot uses nor the step whose
  // forward was the last, of which more may come. The step that begins next has the newest.
  void make_writable();

  // Before an update: the newest is writable, and where there are several versions another copy is for what
  // the update leaves there for later steps, a prediction or what it changes. `slot`, of the micro-batch
  // whose backward makes the update, is released: its version may be that copy and be overwritten during the
  // backward, parameter by parameter, each after it was read for the last time.
  void begin_update(std::optional<std::size_t> slot);
  std::optional<std::size_t> kept() const { return kept_; }
  // What lies there, until then, becomes the version of the steps that begin before the next update, and
  // where `at_once` of all forwards until then. BugError where nothing is kept.
  void begin_with_kept(bool at_once);

 private:
  std::size_t unused() const;
  bool is_unused(std::size_t version) const;

  struct Slot {
    std::size_t version = 0;
    bool is_used = false;
  };

  Device& device_;
  std::vector<AlignedBuffer> copies_;
  std::vector<Slot> slots_{{}};
  std::size_t newest_ = 0;
  std::size_t of_step_ = 0;  // the version of the step whose forward was the last
  std::optional<std::size_t> next_step_, kept_;
};

}  // namespace rookery
