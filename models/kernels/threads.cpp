#include "models/kernels/threads.hpp"

#include "models/base/check.hpp"

namespace rookery {

namespace {

// Some tens of microseconds of a simple loop. To begin and end shared work takes about one; what the other
// core then reads and writes of this one's caches takes more where the two share none: with 1 << 14, a
// cnn_net step took twice as long on two such cores as on one, from here on as long.
constexpr std::int64_t kLeastSharedWork = 1 << 16;

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

void on_whole_team(int /*threads*/, const std::function<void(int)>& work) {
  const int team = threads_of_this_thread;
  threads_of_this_thread = 1;
  on_team(team, work);
  threads_of_this_thread = team;
}

std::int64_t least_shared_work() {
  return least_work;
}

void set_least_shared_work(std::int64_t work) {
  ROOKERY_CHECK(work >= 1, "{} elements", work);
  least_work = work;
}

}  // namespace rookery
