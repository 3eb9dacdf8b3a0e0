#include "models/base/parallel.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <vector>

namespace rookery {

void on_new_threads(int threads, const std::function<void(int)>& work) {
  std::vector<std::jthread> others;
  for (int member = 1; member < threads; ++member) others.emplace_back(std::cref(work), member);
  work(0);
}

void on_team(int threads, const std::function<void(int)>& work) {
// GCC's thread sanitizer does not see how OpenMP's threads wait for each other.
#if defined(_OPENMP) && !defined(__SANITIZE_THREAD__)
#pragma omp parallel num_threads(threads)
  work(omp_get_thread_num());
#else
  on_new_threads(threads, work);
#endif
}

}  // namespace rookery
