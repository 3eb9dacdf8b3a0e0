#include "node/transport/threads/turn.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>
#include <thread>
#include <vector>

namespace rookery {
namespace {

// Work that finds out whether two threads are at it.
class Exclusive {
 public:
  void enter() {
    if (inside_.exchange(true)) ++collisions;
    ++done;
    inside_ = false;
  }
  std::atomic<int> collisions{0};
  std::int64_t done = 0;  // protected by the turn alone: a thread sanitizer sees whether it is

 private:
  std::atomic<bool> inside_{false};
};

TEST(Turn, OneThreadAtATimeDoesTheWork) {
  constexpr int kVisits = 20'000;
  Exclusive work;
  std::atomic<bool> ends{false};
  Turn turn([] {});
  std::jthread keeper([&] {
    turn.keep([&] {
      work.enter();
      return !ends;
    });
  });
  std::int64_t visited = 0;
  for (int i = 0; i < kVisits; ++i) {
    if (i % 3 == 0) {
      turn.try_once([&] { work.enter(); });
      continue;
    }
    turn.visit([&, left = 1 + i % 4]() mutable {
      work.enter();
      ++visited;
      return --left > 0;
    });
  }
  ends = true;
  keeper.join();
  EXPECT_EQ(work.collisions, 0);
  EXPECT_GE(work.done, visited);
}

// The keeper waits inside the work; a guest ends that wait and has the turn.
TEST(Turn, AVisitInterruptsTheKeeper) {
  std::binary_semaphore news(0);
  std::atomic<bool> ends{false};
  Turn turn([&] { news.release(); });
  std::binary_semaphore keeps(0);
  std::jthread keeper([&] {
    turn.keep([&] {
      keeps.release();
      news.acquire();
      return !ends;
    });
  });
  keeps.acquire();
  bool visited = false;
  turn.visit([&] {
    visited = true;
    return false;
  });
  EXPECT_TRUE(visited);
  ends = true;
  news.release();
}

TEST(Turn, AGuestWhoFindsAnotherOneGoesAgainAndTheKeeperFollows) {
  std::binary_semaphore keeps(0);
  Turn turn([] {});
  std::jthread keeper;
  turn.visit([&] {
    std::jthread([&] { turn.visit([] { return ADD_FAILURE() << "two at once", false; }); }).join();
    keeper = std::jthread([&] {
      turn.keep([&] {
        keeps.release();
        return false;
      });
    });
    return false;
  });
  keeps.acquire();
}

// Guests of several groups, each of whom waits for something that any of them, or the keeper, may bring.
TEST(Turn, SeveralGuestsAndTheKeeperNeverCollide) {
  Exclusive work;
  std::atomic<bool> ends{false};
  Turn turn([] {});
  std::jthread keeper([&] {
    turn.keep([&] {
      work.enter();
      return !ends;
    });
  });
  {
    std::vector<std::jthread> guests;
    for (int guest = 0; guest < 4; ++guest) {
      guests.emplace_back([&, guest] {
        for (int i = 0; i < 5'000; ++i) {
          turn.visit([&, left = 1 + (i + guest) % 3]() mutable {
            work.enter();
            return --left > 0;
          });
        }
      });
    }
  }
  ends = true;
  keeper.join();
  EXPECT_EQ(work.collisions, 0);
}

TEST(Turn, NobodyWaitsForASingleTry) {
  Turn turn([] {});
  std::binary_semaphore at_work(0);
  std::binary_semaphore may_end(0);
  std::jthread keeper([&] {
    turn.keep([&] {
      at_work.release();
      may_end.acquire();
      return false;
    });
  });
  at_work.acquire();
  EXPECT_FALSE(turn.try_once([] { FAIL() << "two at once"; }));
  may_end.release();
  keeper.join();
  bool done = false;
  EXPECT_TRUE(turn.try_once([&] { done = true; }));
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace rookery
