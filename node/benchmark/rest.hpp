// Lets both ends of a measurement rest in the same way, so that messages are timed between machines that
// wait.
#pragma once

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace rookery {

// Before each message whose time is taken, in both directions. A stage waits for its messages, too, and a
// processor that has gone to sleep takes its time to wake.
constexpr std::chrono::milliseconds kRest{1};

// Returns how long that was.
inline std::chrono::nanoseconds rest(std::chrono::nanoseconds time) {
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(time);
  return std::chrono::steady_clock::now() - begin;
}

// The mean of all but the slowest fiftieth. The steps of a run take the mean of what their messages take,
// which is more than the median; a lost packet is another matter.
inline double trimmed_mean(std::vector<double> values) {
  std::ranges::sort(values);
  values.resize(values.size() - values.size() / 50);
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace rookery
