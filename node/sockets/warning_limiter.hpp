// Warnings about what others do, or what is tried again and again: a flood of bad packets must not become a
// flood of log lines.
#pragma once

#include <spdlog/spdlog.h>

#include <chrono>
#include <string>

namespace rookery {

class WarningLimiter {
 public:
  void warn(const std::string& text, std::chrono::steady_clock::time_point now) {
    if (now - window_ >= kWindow) {
      if (suppressed_ > 0) spdlog::warn("{} more warnings were not shown", suppressed_);
      window_ = now;
      shown_ = 0;
      suppressed_ = 0;
    }
    if (shown_ < kPerWindow) {
      ++shown_;
      spdlog::warn("{}", text);
    } else {
      ++suppressed_;
    }
  }

 private:
  static constexpr std::chrono::seconds kWindow{10};
  static constexpr int kPerWindow = 5;
  std::chrono::steady_clock::time_point window_{};
  int shown_ = 0;
  int suppressed_ = 0;
};

}  // namespace rookery
