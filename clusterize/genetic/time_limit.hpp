// Limits how long a search may take.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace rookery {

class TimeLimit {
 public:
  // From now on. Without a number there is no limit, and what is found does not depend on the machine.
  explicit TimeLimit(std::optional<double> seconds) : seconds_(seconds) {}

  // Is this share of the time over?
  bool is_over(double share = 1) const { return seconds_ && spent() >= share * *seconds_; }
  std::optional<double> left() const {
    if (!seconds_) return std::nullopt;
    return std::max(0.0, *seconds_ - spent());
  }

 private:
  using Clock = std::chrono::steady_clock;
  double spent() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  std::optional<double> seconds_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace rookery
