// Says after which steps the clusters of a plan average.
#pragma once

#include <cstdint>

#include "trainer/settings/settings.hpp"

namespace rookery {

// Whole models that are averaged by steps, over a long run.
struct RoundRate {
  double waited = 0;      // by rounds that all steps wait for
  double overlapped = 0;  // by those that run beside the next steps, or are of a fragment alone
  int fragments = 1;      // of a model
  // Steps that the latter run beside, on the average, until all wait for them.
  double steps_beside = 0;

  double rounds() const { return waited + overlapped; }
};

// Steps are counted from the run's first, as "done": between the first and the second one is done.
//
// A round that is waited for, after which all clusters hold the same model, comes before each validation, and
// at the end; and at every multiple of `every` or, where rounds overlap or the model is in fragments, at the
// end of whole epochs that have 8 times as many updates. In mode gradients in every step.
//
// Rounds of fragment f that overlap begin at f / F of `every` updates and every `every` updates from there
// on, but not where the other kind comes.
class RoundSchedule {
 public:
  // `validates`: whether there are samples to validate with.
  RoundSchedule(const TrainingSettings& settings, std::int64_t steps_per_epoch, bool validates);

  // Whether all clusters hold the same model when so many steps are done; and the next number of steps done,
  // above this one, at which they do.
  bool is_united(std::int64_t steps_done) const;
  std::int64_t united_after(std::int64_t steps_done) const;

  int fragments() const { return fragments_; }
  // Whether a round of this fragment begins that is done so many updates later.
  bool begins(std::int64_t steps_done, int fragment) const;
  std::int64_t overlapped_updates() const { return overlap_; }

  // The last number of steps done, below this one, at which a round of the fragment's was begun; 0: none.
  std::int64_t last_before(std::int64_t steps_done, int fragment) const;

  RoundRate rate() const;

 private:
  bool streams() const { return fragments_ > 1 || overlap_ > 0; }
  // At which overlapping rounds of a fragment begin, as a remainder of every_.
  std::int64_t place(int fragment) const { return fragment * every_ / fragments_; }
  std::int64_t last_united_before(std::int64_t steps_done) const;

  int fragments_;
  std::int64_t overlap_;
  std::int64_t every_;
  std::int64_t united_every_;      // steps
  std::int64_t validation_every_;  // steps; 0: never
  std::int64_t steps_;             // of the run
};

}  // namespace rookery
