// Learning-rate schedules, to PyTorch's definitions: the rate of every step as a function of its number,
// but for `plateau`, which follows what an epoch has led to (plateau.hpp). Each is a row of the table in
// learning_rate.cpp, from which settings and documentation come, too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rookery {

// Names of the fields are those of torch.optim.lr_scheduler where it has them.
struct LearningRateSchedule {
  std::string name = "constant";  // one of learning_rate_schedule_names()
  std::string per = "batch";      // or "epoch": what the rate changes with
  std::int64_t step_size = 10;    // step: batches or epochs from one drop to the next
  double gamma = 0.1;             // step: factor of each drop
  std::int64_t warmup = 0;        // cosine, linear_warmup: batches or epochs of rising rate
  double start_factor = 1.0 / 3;  // cosine, linear_warmup: share of the rate at the start of the warm-up
  double end_factor = 0;          // cosine, linear_warmup: share of the rate that the decay leads to
  double pct_start = 0.3;         // one_cycle: share of the run in which the rate rises
  double div_factor = 25;         // one_cycle: the rate over that of the start
  double final_div_factor = 1e4;  // one_cycle: rate of the start over that of the end
  std::string metric = "validation_loss";  // plateau: or "validation_accuracy", "training_loss"
  std::string mode = "min";                // plateau: or "max": what is better
  double factor = 0.1;                     // plateau: of the rate at a drop
  std::int64_t patience = 10;              // plateau: epochs without a better metric that are let pass
  double threshold = 1e-4;                 // plateau: by how much better is better
  std::string threshold_mode = "rel";      // plateau: or "abs"
  std::int64_t cooldown = 0;               // plateau: epochs after a drop that do not count
  double min_lr = 0;                       // plateau: no drop leads below it
  double eps = 1e-8;                       // plateau: a smaller drop is left undone
  bool operator==(const LearningRateSchedule&) const = default;
};

// In the order of the table.
std::vector<std::string> learning_rate_schedule_names();

// The rate of update number `step` (from 0) of a run of epochs * steps_per_epoch. With t and T the step
// and the length of the run, both in batches or epochs as `per` says, and w the warm-up:
//   constant       rate
//   step           StepLR: rate gamma^floor(t / step_size)
//   cosine         for t < w LinearLR from start_factor; then CosineAnnealingLR over T - w to rate end_factor
//   linear_warmup  the same, then LinearLR over T - w to rate end_factor
//   one_cycle      OneCycleLR (arXiv 1708.07120), two phases, cosines, the rate being max_lr
//   plateau        rate, which is then that of Plateau
// ConfigError for an unknown name.
double learning_rate(double rate, const LearningRateSchedule& schedule, std::int64_t step,
                     std::int64_t steps_per_epoch, std::int64_t epochs);

}  // namespace rookery
