#include "node/transport/threads/waker.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>
#include <vector>

namespace rookery {
namespace {

bool is_awake(const Waker& waker) {
  pollfd item{waker.descriptor(), POLLIN, 0};
  return ::poll(&item, 1, 0) == 1;
}

TEST(Waker, IsAwakeUntilItIsReset) {
  Waker waker;
  EXPECT_FALSE(is_awake(waker));
  waker.wake_up();
  waker.wake_up();
  EXPECT_TRUE(is_awake(waker));
  waker.reset();
  EXPECT_FALSE(is_awake(waker));
  waker.wake_up();
  EXPECT_TRUE(is_awake(waker));
}

// Whatever several threads ask for is found, and nobody is kept awake for nothing.
TEST(Waker, LosesNoCallAndKeepsNone) {
  constexpr int kThreads = 3;
  constexpr int kCalls = 20'000;
  for (int round = 0; round < 20; ++round) {
    Waker waker;
    std::atomic<int> asked{0};
    std::jthread io([&] {
      for (int found = 0; found < kThreads * kCalls;) {
        pollfd item{waker.descriptor(), POLLIN, 0};
        ASSERT_EQ(::poll(&item, 1, 60'000), 1) << "after " << found << " of " << asked;
        waker.reset();
        found = asked;
      }
    });
    std::vector<std::jthread> callers;
    for (int i = 0; i < kThreads; ++i) {
      callers.emplace_back([&] {
        for (int call = 0; call < kCalls; ++call) {
          ++asked;
          waker.wake_up();
        }
      });
    }
    callers.clear();
    io.join();
    if (testing::Test::HasFailure()) return;
    if (is_awake(waker)) waker.reset();
    EXPECT_FALSE(is_awake(waker));
    waker.wake_up();
    EXPECT_TRUE(is_awake(waker));
  }
}

}  // namespace
}  // namespace rookery
