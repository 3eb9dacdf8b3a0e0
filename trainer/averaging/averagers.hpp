// The ways in which a stage keeps up with the same parameters on other clusters (AveragingSettings).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "models/runtime/executable.hpp"
#include "trainer/averager.hpp"
#include "trainer/averaging/ring/ring_all_reduce.hpp"
#include "trainer/averaging/ring/rings.hpp"
#include "trainer/averaging/round_schedule.hpp"
#include "trainer/settings/cluster_shares.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// Everything that an Averager needs to know of its run.
struct AveragedRun {
  TrainingSettings settings;  // the plan's
  ClusterShares shares;
  std::int64_t train_samples = 0;
  bool validates = false;                // there are samples to validate with
  std::map<std::string, int> fragments;  // of what the stage averages; empty: all is in one

  std::int64_t steps_per_epoch() const;
  // The samples that cluster `of` trains in the steps from `begin` up to `end`.
  std::int64_t samples_of(int of, std::int64_t begin, std::int64_t end) const;
};

// An Averager that has state of its own, which belongs to a checkpoint.
class StatefulAverager : public Averager {
 public:
  // By names that no parameter, buffer or state of an optimizer has; between two steps. Begins with zeros.
  virtual std::map<std::string, TensorView> state() = 0;
  // Once, before the first step that is trained: so many are done, and so many ahead (run_state.hpp). The
  // Executable has the state from which training goes on, and so has state().
  virtual void begin(std::int64_t steps_done, std::int64_t steps_ahead) = 0;
};

// The part of what clusters average that a ring or a stage has.
struct AveragedLoad {
  RingLoad parameters;
  RingLoad buffers;
};
// Memory of an Averager's own for such a stage.
std::int64_t averager_bytes(const TrainingSettings& settings, const AveragedLoad& stage);
// The traffic that the rounds of such a run ask of a ring's links, on which so many bytes are under way; and
// the bytes that a member of the ring sends in one of all fragments.
RingTraffic round_traffic(const TrainingSettings& settings, const AveragedLoad& ring, int clusters,
                          std::uint64_t under_way = kRingUnderWay);
double round_bytes(const TrainingSettings& settings, const AveragedLoad& ring, int clusters);

// The Executable and the Rings outlive it. Takes all memory that it needs.
std::unique_ptr<StatefulAverager> make_averager(AveragedRun run, Executable& executable, Rings& rings);

}  // namespace rookery
