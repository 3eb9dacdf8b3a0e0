#include "models/kernels/threads.hpp"

#include "models/base/check.hpp"

namespace rookery {

namespace {

thread_local int threads_of_this_thread = 1;

}  // namespace

void set_kernel_threads(int threads) {
  ROOKERY_CHECK(threads >= 1, "{} threads", threads);
  threads_of_this_thread = threads;
}

int kernel_threads() {
  return threads_of_this_thread;
}

}  // namespace rookery
