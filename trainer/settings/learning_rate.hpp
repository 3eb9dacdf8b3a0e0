// Learning-rate schedules: the rate of every step as a function of its number, to PyTorch's definitions.
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
  bool operator==(const LearningRateSchedule&) const = default;
};

// "constant", "step", "cosine", "linear_warmup", "one_cycle".
std::vector<std::string> learning_rate_schedule_names();

// The rate of update number `step` (from 0) of a run of epochs * steps_per_epoch. With t and T the step
// and the length of the run, both in batches or epochs as `per` says, and w the warm-up:
//   constant       rate
//   step           StepLR: rate gamma^floor(t / step_size)
//   cosine         for t < w LinearLR from start_factor; then CosineAnnealingLR over T - w to rate end_factor
//   linear_warmup  the same, then LinearLR over T - w to rate end_factor
//   one_cycle      OneCycleLR (arXiv 1708.07120), two phases, cosines, the rate being max_lr
// ConfigError for an unknown name.
double learning_rate(double rate, const LearningRateSchedule& schedule, std::int64_t step,
                     std::int64_t steps_per_epoch, std::int64_t epochs);

}  // namespace rookery
