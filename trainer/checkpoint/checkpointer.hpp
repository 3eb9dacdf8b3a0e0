// A stage's checkpoints during a run: written when they are due, removed when newer ones are whole, and found
// again when the run goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "models/base/process/stop_signals.hpp"
#include "models/runtime/executable.hpp"
#include "trainer/agreement.hpp"
#include "trainer/checkpoint/checkpoint_part.hpp"
#include "trainer/checkpoint/checkpoint_schedule.hpp"
#include "trainer/checkpoint/checkpoint_writer.hpp"
#include "trainer/checkpoint/stop_agreement.hpp"

namespace rookery {

// Whether runs with these settings, when they are asked to stop, end between two steps with a checkpoint: a
// schedule that is asynchronous has no such place soon.
bool stops_between_steps(const TrainingSettings& settings);

// What a checkpoint has besides the Executable's training_state(): the Averager's state, and Reconstructions;
// it stays where it is. A checkpoint of a run that had none of it leaves it as it is.
using FurtherState = std::map<std::string, TensorView>;

// A run that writes checkpoints.
struct RunCourse {
  RunState from;           // where it begins
  std::int64_t steps = 0;  // of the whole run
  // Which signal has asked this stage to stop, 0: none.
  std::function<int()> stop_signal = rookery::stop_signal;
  // The next number of steps, above this one, after which all nodes stand between the same two.
  std::function<std::int64_t(std::int64_t)> next_place = [](std::int64_t step) { return step + 1; };
  FurtherState further;
};

// The end of a run that was asked to stop, the same on all stages.
struct StoppedRun {
  StopRequest request;
  std::int64_t step = 0;  // updates done
  std::optional<std::int64_t>
      newest;  // checkpoint that every stage has: of that step, unless a disk was full
};

// One thread, the one that trains. The Executable and what the Agreement is made of outlive it.
class Checkpointer {
 public:
  // Parts of later steps, of a run from which this one does not go on, are called NAME.1 from here on.
  // DataError, also where the settings' checkpoint_upload cannot be used; ConfigError where a part is too
  // large for it. The settings' checkpoint_every is not "never"; `run` is before training.
  Checkpointer(CheckpointOwner owner, TrainingSettings settings, KernelChoice kernels, Executable& executable,
               Agreement agreement, RunCourse run);

  // For TrainerOptions::reads_state, and then between_steps. Where it returns something the run is to end
  // here, on all stages.
  bool is_due(const RunState& run, bool is_end);
  std::optional<StoppedRun> between_steps(const RunState& run, bool is_end);
  // The step of the newest part that the run has written or gone on from; waits for one that is being
  // written.
  std::optional<std::int64_t> newest();
  // Memory besides that of the Executable.
  std::int64_t bytes() const { return writer_.bytes(); }

 private:
  // What is_due() has found, until between_steps() goes by it.
  struct Due {
    bool is_due = false;
    std::optional<StopRequest> stop;
  };

  std::map<std::string, TensorView> state();
  std::optional<std::int64_t> newest_of_all(std::int64_t step, const char* what);
  std::optional<CheckpointUpload> next_upload(std::int64_t step, bool is_last);
  void remove_old(std::int64_t whole);
  void put_aside_later_ones() const;

  const CheckpointOwner owner_;
  const TrainingSettings settings_;
  const KernelChoice kernels_;
  Executable& executable_;
  const FurtherState further_;
  Agreement agreement_;
  const std::int64_t first_step_;
  std::optional<std::int64_t> last_due_;  // the step of the last that was to be written
  std::optional<std::int64_t> whole_;     // and of the last that every node has written
  CheckpointSchedule schedule_;
  std::optional<StopAgreement> stop_;
  std::optional<Due> due_;
  CheckpointWriter writer_;
  std::optional<std::int64_t> whole_in_bucket_;  // the newest step that all have there
  bool is_bucket_slow_ = false;                  // for the checkpoint before
};

// Takes a part's tensors over. DataError where they are not this stage's.
void load_part(PartReader& part, Executable& executable, const FurtherState& further = {});

// Called by all nodes at once, before they train: takes over the newest checkpoint of which each of them has
// an undamaged part, and says where it stands; nothing where one has no part at all. Damaged ones are told in
// the log; DataError when there is no other. A node without an Executable goes on from none of its parts,
// whatever step the others agree on, which is all that it is told.
std::optional<RunState> go_on_from_newest(const CheckpointOwner& owner, Executable* executable,
                                          Agreement agreement, const FurtherState& further = {});

}  // namespace rookery
