// Times parts of a step.
#pragma once

#include <chrono>

namespace rookery {

// Adds the seconds from its construction to its destruction to `total`.
class Timer {
 public:
  explicit Timer(double& total) : total_(total), begin_(Clock::now()) {}
  ~Timer() { total_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& total_;
  Clock::time_point begin_;
};

}  // namespace rookery
