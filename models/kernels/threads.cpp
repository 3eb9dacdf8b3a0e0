#include "models/kernels/threads.hpp"

#include "models/base/check.hpp"

namespace rookery {

namespace {

// Some microseconds of a simple loop, several times what it takes to begin and end work on several threads.
constexpr std::int64_t kLeastSharedWork = 1 << 14;

thread_local int threads_of_this_thread = 1;
std::atomic<std::int64_t> least_work{kLeastSharedWork};

}  // namespace

void set_kernel_threads(int threads) {
  ROOKERY_CHECK(threads >= 1, "{} threads", threads);
  threads_of_this_thread = threads;
}

int kernel_threads() {
  return threads_of_this_thread;
}

std::int64_t least_shared_work() {
  return least_work;
}

void set_least_shared_work(std::int64_t work) {
  ROOKERY_CHECK(work >= 1, "{} elements", work);
  least_work = work;
}

}  // namespace rookery
