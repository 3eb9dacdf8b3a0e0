// Loops whose rounds run on several threads at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace rookery {

// Both call `work`, which does not throw, once on each of up to `threads` threads at the same time, one of
// which is the calling one, and return when all are done.
//
// Threads that live as long as the call, and sleep while they wait: for work of milliseconds and more.
void on_new_threads(int threads, const std::function<void()>& work);
// Where there is OpenMP, its threads, which are oneDNN's, too. They stay for the next call, and keep their
// processors for a while so that it begins at once: for work of microseconds, by programs that have these
// processors to themselves.
void on_team(int threads, const std::function<void()>& work);

// body(i) for 0 <= i < count in no order, on up to `threads` threads (0: one per processor). Throws the first
// exception that a body throws; rounds that nobody has begun by then are left out.
template <std::integral Index, typename Body>
void parallel_for(Index count, int threads, const Body& body,
                  decltype(on_new_threads)& on_threads = on_new_threads) {
  const auto rounds = static_cast<std::int64_t>(count);
  const std::int64_t wanted = threads > 0 ? threads : std::thread::hardware_concurrency();
  const auto workers = static_cast<int>(std::min(wanted, rounds));
  if (workers <= 1) {
    for (Index i = 0; i < count; ++i) body(i);
    return;
  }
  // Threads take what is left when they are done with what they took: one round where there are few, whose
  // times may differ, and runs of neighbours where there are many.
  constexpr std::int64_t kRuns = 32;  // of each thread
  const std::int64_t run = std::max<std::int64_t>(1, rounds / (kRuns * workers));
  std::atomic<std::int64_t> next{0};
  std::exception_ptr error;
  std::mutex mutex;  // of the error
  on_threads(workers, [&] {
    try {
      for (std::int64_t begin = next.fetch_add(run); begin < rounds; begin = next.fetch_add(run)) {
        for (std::int64_t i = begin; i < std::min(begin + run, rounds); ++i) body(static_cast<Index>(i));
      }
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!error) error = std::current_exception();
      next = rounds;
    }
  });
  if (error) std::rethrow_exception(error);
}

}  // namespace rookery
