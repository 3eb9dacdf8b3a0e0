// The number of threads that a kernel may use.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <cstdint>
#include <functional>

#include "models/base/parallel.hpp"

namespace rookery {

// For kernels made and run by the calling thread; 1 until set. Results do not depend on it; scratch memory
// does, so that it is the same when a kernel is made and whenever it runs.
void set_kernel_threads(int threads);
int kernel_threads();

// So many for the calling thread, until this ends.
class KernelThreads {
 public:
  explicit KernelThreads(int threads) : before_(kernel_threads()) { set_kernel_threads(threads); }
  ~KernelThreads() { set_kernel_threads(before_); }
  KernelThreads(const KernelThreads&) = delete;
  KernelThreads& operator=(const KernelThreads&) = delete;

 private:
  const int before_;
};

// on_team() with all of kernel_threads(), however few are asked for: OpenMP ends the threads that a smaller
// team leaves over, and the next larger one would have to begin them anew. Meanwhile kernel_threads() is 1 on
// each.
void on_whole_team(int threads, const std::function<void(int member)>& work);

// body(i) for i < n in any order, on so many threads. Bodies write to places of their own; loops within them
// run on the body's thread.
template <typename Body>
void in_parallel(std::int64_t n, Body body) {
  parallel_for_members(
      n, kernel_threads(), [&](int, std::int64_t i) { body(i); }, on_whole_team);
}

// The least elements, or operations, of a piece of work that is worth another thread; tests make it small.
std::int64_t least_shared_work();
void set_least_shared_work(std::int64_t work);

// body(first, count) for runs that together are all i < n, each a multiple of `multiple` but for the last. An
// i is `work` elements or operations. Which runs there are depends on the number of threads, so that what
// comes of an i must not depend on its run.
template <typename Body>
void in_runs(std::int64_t n, std::int64_t work, Body body, std::int64_t multiple = 1) {
  const std::int64_t wanted =
      std::max<std::int64_t>(1, least_shared_work() / std::max<std::int64_t>(1, work));
  const std::int64_t run = (wanted + multiple - 1) / multiple * multiple;
  if (n <= run || kernel_threads() == 1) {
    body(std::int64_t{0}, n);
    return;
  }
  in_parallel((n + run - 1) / run, [&](std::int64_t i) { body(i * run, std::min(run, n - i * run)); });
}

// Threads that a kernel of n rounds uses. Each has a place of its own, such as for scratch memory.
inline std::int64_t places_for(std::int64_t n) {
  return std::min<std::int64_t>(n, kernel_threads());
}
// body(place, i) for i < n in any order, at so many places; nobody else is at that place meanwhile.
template <typename Body>
void in_places(std::int64_t n, std::int64_t places, Body body) {
  parallel_for_members(n, static_cast<int>(places), body, on_whole_team);
}

// body(member, members, barrier) once on each member of a team of kernel_threads() threads, or of one where n
// is 1: with n pieces of work, members beyond them have none. Bodies do not throw, and all call barrier()
// equally often: none comes back before all have called.
template <typename Body>
void in_team([[maybe_unused]] std::int64_t n, Body body) {
#ifdef _OPENMP
  if (n > 1 && kernel_threads() > 1) {
#pragma omp parallel num_threads(kernel_threads())
    body(std::int64_t{omp_get_thread_num()}, std::int64_t{omp_get_num_threads()}, [] {
#pragma omp barrier
    });
    return;
  }
#endif
  body(std::int64_t{0}, std::int64_t{1}, [] {});
}

}  // namespace rookery
