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

// Each round waits for the others, so that every member has one.
TEST_P(ParallelFor, MembersHaveTheirPartsByNumber) {
  std::barrier all(3);
  parallel_for_members(
      3, 3,
      [&](int member, int i) {
        EXPECT_EQ(member, i);
        all.arrive_and_wait();
      },
      *GetParam());
}

TEST(SharedRounds, AMemberTakesItsPartInOrderAndThenWhatOthersHaveLeft) {
  SharedRounds shared(10, 3, 3);  // [0, 3), [3, 6), [6, 10)
  const auto take = [&](int member) {
    const auto run = shared.take(member);
    return run ? std::vector<std::int64_t>{run->begin, run->end} : std::vector<std::int64_t>{};
  };
  const auto run = [](std::int64_t i) { return std::vector<std::int64_t>{i, i + 1}; };
  for (const std::int64_t i : {3, 4, 5}) EXPECT_EQ(take(1), run(i));
  EXPECT_EQ(take(0), run(0));
  for (const std::int64_t i : {6, 7, 8, 9, 1, 2}) EXPECT_EQ(take(1), run(i));
  for (const int member : {0, 1, 2}) EXPECT_TRUE(take(member).empty()) << member;
}

TEST(SharedRounds, OfOneQueueAreTakenInTheirOrder) {
  SharedRounds shared(7, 3, 1);
  for (std::int64_t i = 0; i < 7; ++i) {
    const auto run = shared.take(static_cast<int>(i % 3));
    ASSERT_TRUE(run);
    EXPECT_EQ(run->begin, i);
    EXPECT_EQ(run->end, i + 1);
  }
  EXPECT_FALSE(shared.take(0));
}

TEST(SharedRounds, WhatIsLeftOutNobodyTakes) {
  SharedRounds shared(1000, 2, 2);
  EXPECT_TRUE(shared.take(0));
  shared.leave_out_the_rest();
  EXPECT_FALSE(shared.take(0));
  EXPECT_FALSE(shared.take(1));
}

}  // namespace
}  // namespace rookery
