#include "models/base/parallel.hpp"

#include <vector>

namespace rookery {

void on_new_threads(int threads, const std::function<void()>& work) {
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
}

void on_team(int threads, const std::function<void()>& work) {
// GCC's thread sanitizer does not see how OpenMP's threads wait for each other.
#if defined(_OPENMP) && !defined(__SANITIZE_THREAD__)
#pragma omp parallel num_threads(threads)
  work();
#else
  on_new_threads(threads, work);
#endif
}

}  // namespace rookery
