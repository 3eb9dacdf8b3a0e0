// The settings by which the clusters of a plan stay one model: what they average with each other, and when. A
// plan of one cluster has nothing to average.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rookery {

// Means are weighted by the samples that each cluster has trained since the round before.
//   gradients   of every step, before they are clipped: as one node that trains on the joint batch; with
//               them the buffers that training changes
//   parameters  and buffers, after every `every`-th update; with `optimizer` its state, too
//   diloco      what `every` updates have changed, by which an outer SGD with Nesterov's momentum goes on
//               from the parameters of the round before (DiLoCo, arXiv 2311.08105); buffers as with
//               `parameters`
// Besides there is a round before each validation, and at the end.
//
// With `overlap` or `fragments` rounds run while training goes on (streaming DiLoCo, arXiv 2501.18512). What
// a round has changed is added so many updates after those that it averages. Rounds before validations and at
// the end are of all fragments, and waited for; so are some between (trainer/averaging/round_schedule.hpp).
//
// `auto` leaves the choice between the first two to clusterize: a plan has one of the others.
struct AveragingSettings {
  std::string mode = "gradients";
  std::optional<std::int64_t> every;    // updates; nothing: those of an epoch
  bool optimizer = false;               // parameters
  double outer_learning_rate = 0.7;     // diloco
  double outer_momentum = 0.9;          // diloco
  int fragments = 1;                    // diloco: parts of the model that have rounds of their own
  std::optional<std::int64_t> overlap;  // updates; nothing: 0, with several fragments 1
  std::string compression = "none";     // how numbers travel (trainer/settings/compression.hpp)

  // Updates from one round to the next in a run whose epochs have `steps_per_epoch`.
  std::int64_t updates_between_rounds(std::int64_t steps_per_epoch) const {
    return mode == "gradients" ? 1 : every.value_or(steps_per_epoch);
  }
  std::int64_t overlapped_updates() const { return overlap.value_or(fragments > 1 ? 1 : 0); }
  bool operator==(const AveragingSettings&) const = default;
};

}  // namespace rookery
