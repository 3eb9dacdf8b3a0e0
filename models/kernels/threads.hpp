// The number of threads that a kernel may use.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <cstdint>

#include "models/base/parallel.hpp"

namespace rookery {

// For kernels made and run by the calling thread; 1 until set. Results may depend on it, so it must be the
// same when a kernel is made and whenever it runs.
void set_kernel_threads(int threads);
int kernel_threads();

// body(i) for i < n in any order, on so many threads. Bodies write to places of their own.
template <typename Body>
void in_parallel(std::int64_t n, Body body) {
  parallel_for(n, kernel_threads(), body, on_team);
}

// body(member, members, barrier) once on each member of a team of at most kernel_threads() threads. Bodies do
// not throw, and all call barrier() equally often: none comes back before all have called.
template <typename Body>
void in_team(std::int64_t most, Body body) {
#ifdef _OPENMP
  const int threads = most < kernel_threads() ? static_cast<int>(most) : kernel_threads();
  if (threads > 1) {
#pragma omp parallel num_threads(threads)
    body(std::int64_t{omp_get_thread_num()}, std::int64_t{omp_get_num_threads()}, [] {
#pragma omp barrier
    });
    return;
  }
#endif
  body(std::int64_t{0}, std::int64_t{1}, [] {});
}

}  // namespace rookery
