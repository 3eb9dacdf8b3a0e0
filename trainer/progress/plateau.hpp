// The learning-rate schedule `plateau`.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/settings/learning_rate.hpp"

namespace rookery {

// ReduceLROnPlateau: the rate drops when the metric has not become better for `patience` epochs.
class Plateau {
 public:
  Plateau(double rate, LearningRateSchedule schedule);
  double rate() const { return rate_; }
  // One more epoch has led to this; a NaN is no better than anything.
  void note(double metric);

  // The state that it is in, from which another one of the same schedule goes on.
  struct Memory {
    std::optional<double> best;  // nothing before the first epoch
    std::int64_t bad_epochs = 0;
    std::int64_t cooldown_left = 0;
    bool operator==(const Memory&) const = default;
  };
  Memory memory() const;
  void go_on(double rate, const Memory& memory);

 private:
  bool is_better(double metric) const;
  void drop();

  double rate_;
  LearningRateSchedule schedule_;
  double best_;
  std::int64_t bad_epochs_ = 0;
  std::int64_t cooldown_left_ = 0;
};

}  // namespace rookery
