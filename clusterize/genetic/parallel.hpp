// Work on all processors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace rookery {

// body(i) for 0 <= i < count, by up to `threads` threads (0: one per processor), in no order. Throws the
// first exception thrown.
template <typename Body>
void parallel_for(std::size_t count, int threads, const Body& body) {
  std::size_t workers = threads > 0 ? static_cast<std::size_t>(threads) : std::thread::hardware_concurrency();
  workers = std::max<std::size_t>(1, std::min(workers, count));
  std::atomic<std::size_t> next{0};
  std::exception_ptr error;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) body(i);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!error) error = std::current_exception();
      next = count;
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < workers; ++i) others.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace rookery
