// Says which samples a micro-batch trains, as every stage of a cluster can compute it: by their places among
// those that train, from 0. Which ids these have the Root alone knows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/settings/cluster_shares.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// Of runs that go through epochs in order, as Trainer::run() does. Holds the order of an epoch. One thread.
class SamplePlaces {
 public:
  // `settings`: the plan's; batch_size is replaced by the cluster's share.
  SamplePlaces(TrainingSettings settings, std::int64_t train_samples, ClusterShares shares);

  // The run's steps_ahead() (trainer/progress/run_state.hpp), where it is not 0.
  void begin(std::int64_t steps_ahead) { steps_ahead_ = steps_ahead; }
  // The places of the samples of a micro-batch, in their order there: until the next call.
  std::span<const std::int64_t> of(std::int64_t step, int micro_batch);

 private:
  TrainingSettings settings_;
  const std::int64_t train_samples_;
  const ClusterShares shares_;
  std::int64_t steps_ahead_ = 0;
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_;  // of that epoch
};

}  // namespace rookery
