// A stage's checkpoints during a run: written when they are due, removed when newer ones are whole, and found
// again when the run goes on.
#pragma once

#include <cstdint>
#include <optional>

#include "models/runtime/executable.hpp"
#include "trainer/checkpoint/checkpoint_part.hpp"
#include "trainer/checkpoint/checkpoint_schedule.hpp"
#include "trainer/checkpoint/checkpoint_writer.hpp"
#include "trainer/link.hpp"

namespace rookery {

// One thread, the one that trains. Executable and Link outlive it.
class Checkpointer {
 public:
  // The settings' checkpoint_every is not "never"; `first_step` is the first that is trained.
  Checkpointer(CheckpointOwner owner, TrainingSettings settings, KernelChoice kernels, Executable& executable,
               Link& link, std::int64_t first_step);

  // TrainerOptions::between_steps.
  void between_steps(const RunState& run);
  // Memory besides that of the Executable.
  std::int64_t bytes() const { return writer_.bytes(); }

 private:
  void remove_old(std::int64_t whole);

  const CheckpointOwner owner_;
  const TrainingSettings settings_;
  const KernelChoice kernels_;
  Executable& executable_;
  Link& link_;
  CheckpointSchedule schedule_;
  CheckpointWriter writer_;
};

// Takes a part's tensors over. DataError where they are not this stage's.
void load_part(PartReader& part, Executable& executable);

// Called by all stages at once, before they train: takes over the newest checkpoint of which each of them has
// an undamaged part, and says where it stands; nothing where one has no part at all. Damaged ones are told in
// the log; DataError when there is no other.
std::optional<RunState> go_on_from_newest(const CheckpointOwner& owner, Executable& executable, Link& link);

}  // namespace rookery
