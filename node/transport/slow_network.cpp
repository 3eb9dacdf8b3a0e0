#include "node/transport/slow_network.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

#include "models/base/check.hpp"

namespace rookery {

Clock::time_point SlowNetwork::leaves(Clock::time_point now, std::size_t bytes, bool is_control) {
  Clock::time_point left = now;
  if (limits_.mbps) {
    constexpr double kBitsOfMegabit = 1e6;
    const std::chrono::duration<double> seconds(8 * static_cast<double>(bytes) /
                                                (kBitsOfMegabit * *limits_.mbps));
    const std::scoped_lock lock(mutex_);
    free_ = std::max(free_, now) + std::chrono::duration_cast<Clock::duration>(seconds);
    if (!is_control) left = free_;
  }
  return left + limits_.latency;
}

// steady_clock is CLOCK_MONOTONIC.
PreciseTimer::PreciseTimer() : descriptor_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  ROOKERY_CHECK(descriptor_ >= 0, "no timerfd");
}

PreciseTimer::~PreciseTimer() {
  ::close(descriptor_);
}

void PreciseTimer::set(Clock::time_point at) {
  itimerspec spec{};
  if (at != Clock::time_point::max()) {
    const auto since = std::max(at.time_since_epoch(), Clock::duration(1));  // 0 would be never
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
    spec.it_value.tv_sec = seconds.count();
    spec.it_value.tv_nsec = std::chrono::nanoseconds(since - seconds).count();
  }
  ROOKERY_CHECK(::timerfd_settime(descriptor_, TFD_TIMER_ABSTIME, &spec, nullptr) == 0, "no timer");
}

}  // namespace rookery
