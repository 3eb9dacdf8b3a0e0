#include "models/base/parallel.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <set>
#include <stdexcept>
#include <vector>

namespace rookery {
namespace {

class ParallelFor : public testing::TestWithParam<decltype(&on_team)> {};
INSTANTIATE_TEST_SUITE_P(Threads, ParallelFor, testing::Values(&on_new_threads, &on_team));

TEST_P(ParallelFor, DoesEveryRoundOnce) {
  for (const int threads : {0, 1, 2, 3, 8}) {
    for (const std::int64_t count : {0, 1, 2, 3, 7, 64, 65, 1000, 12'345}) {
      std::vector<std::atomic<int>> done(count);
      parallel_for(
          done.size(), threads, [&](std::size_t i) { ++done[i]; }, *GetParam());
      for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1) << count << " on " << threads;
    }
  }
}

// Each round waits for the other three: with fewer threads none would come to its end.
TEST_P(ParallelFor, AFewRoundsRunAllAtOnce) {
  std::barrier all(4);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  parallel_for(
      4, 4,
      [&](int) {
        all.arrive_and_wait();
        const std::scoped_lock lock(mutex);
        threads.insert(std::this_thread::get_id());
      },
      *GetParam());
  EXPECT_EQ(threads.size(), 4U);
  EXPECT_TRUE(threads.contains(std::this_thread::get_id())) << "the calling thread works, too";
}

TEST_P(ParallelFor, OneThreadGoesInOrder) {
  std::vector<int> order;
  parallel_for(
      5, 1, [&](int i) { order.push_back(i); }, *GetParam());
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST_P(ParallelFor, ThrowsWhatABodyThrewAndBeginsNothingElse) {
  for (const int threads : {1, 4}) {
    std::atomic<int> done = 0;
    constexpr int kRounds = 1'000'000;
    const auto body = [&](int i) {
      if (i == 3) throw std::runtime_error("the fourth");
      ++done;
    };
    try {
      parallel_for(kRounds, threads, body, *GetParam());
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "the fourth");
    }
    EXPECT_LT(done, kRounds - 1) << threads;
  }
}

}  // namespace
}  // namespace rookery
