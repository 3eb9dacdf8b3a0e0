// The place that a run has reached, apart from its tensors: with both it goes on anywhere, to the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/progress/plateau.hpp"
#include "trainer/settings/cluster_shares.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// Losses of samples, summed.
struct LossSum {
  double loss = 0;
  std::int64_t samples = 0;
  bool operator==(const LossSum&) const = default;
};

// Between two steps: everything of the steps before is done, the validation after an epoch and the learning
// rate that follows from it too. Stages agree on the first group; the second is known to the Leaf alone, and
// elsewhere as it was in the beginning.
struct RunState {
  std::int64_t step = 0;                // updates done
  std::int64_t epoch = 0;               // of the next step
  std::int64_t samples = 0;             // trained of that epoch
  std::int64_t validation_batches = 0;  // of all validations
  std::int64_t validations = 0;
  std::int64_t optimizer_from = 0;  // updates done when this cluster's optimizer began: 0, but for one that
                                    // has joined with the parameters of another alone
  double base_rate = 0;             // optimizer.learning_rate, of the settings
  double learning_rate = 0;         // what a schedule starts from: base_rate, but for `plateau`
  std::uint64_t sample_digest = 0;  // StageWorker's; the Root knows it, too

  double epoch_loss = 0;  // summed over the samples that this cluster has trained of the epoch
  // By cluster, the same of all of them: a part of a checkpoint may be for other clusters than the one that
  // wrote it. Empty in those of older versions.
  std::vector<LossSum> epoch_losses;
  Plateau::Memory plateau;

  bool operator==(const RunState&) const = default;
};

// Where a run with these settings goes on from there: with their learning rate where that is another than
// until here. `batch` is that of all clusters. ConfigError where they have no such place: in the middle of a
// batch or of an asynchronous epoch, or beyond their last epoch.
RunState going_on(RunState from, const TrainingSettings& settings, std::int64_t batch,
                  std::int64_t train_samples);

// What a cluster has as its epoch_loss where the run goes on from there: what its own samples have given; of
// clusters with other samples its share of the whole, in proportion to its samples.
double epoch_loss_of(const RunState& from, const ClusterShares& shares);

// The updates that the run has made beyond those that bring a run to this place which has such batches from
// its beginning; < 0: fewer, 0: it had them. Learning-rate schedules, rounds of averaging and the end of the
// run go by steps less these.
std::int64_t steps_ahead(const RunState& from, std::int64_t batch, std::int64_t train_samples);

// JSON text, in which every number comes back to the bit. DataError for what is none.
std::string to_text(const RunState& state);
RunState run_state_from(const std::string& text);

}  // namespace rookery
