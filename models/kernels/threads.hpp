// How many threads a kernel may use.
#pragma once

#include <cstdint>

namespace rookery {

// For kernels made and run by the calling thread; 1 until set. Results may depend on it, so it must be the
// same when a kernel is made and whenever it runs.
void set_kernel_threads(int threads);
int kernel_threads();

// body(i) for i < n in any order, on so many threads. Bodies write to places of their own and do not throw.
template <typename Body>
void in_parallel(std::int64_t n, Body body) {
#ifdef _OPENMP
  if (kernel_threads() > 1) {
#pragma omp parallel for num_threads(kernel_threads()) schedule(static)
    for (std::int64_t i = 0; i < n; ++i) body(i);
    return;
  }
#endif
  for (std::int64_t i = 0; i < n; ++i) body(i);
}

}  // namespace rookery
