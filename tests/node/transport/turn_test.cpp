#include "node/transport/threads/turn.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
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
  Turn turn(std::chrono::milliseconds(1));
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

// The keeper sleeps inside the work, and a guest has the turn meanwhile.
TEST(Turn, WhoeverSleepsLendsTheTurn) {
  std::binary_semaphore sleeps(0), news(0);
  Exclusive work;
  Turn turn(std::chrono::milliseconds(1));
  std::jthread keeper([&] {
    turn.keep([&] {
      work.enter();
      turn.lend_during([&] {
        sleeps.release();
        news.acquire();
      });
      work.enter();
      return false;
    });
  });
  sleeps.acquire();
  EXPECT_TRUE(turn.try_once([&] { work.enter(); }));
  turn.visit([&] {
    work.enter();
    return false;
  });
  news.release();
  keeper.join();
  EXPECT_EQ(work.done, 4);
}

TEST(Turn, ALentTurnIsTakenBack) {
  constexpr int kTimes = 5'000;
  Exclusive work;
  std::atomic<bool> ends{false};
  Turn turn(std::chrono::milliseconds(1));
  const auto sleep_and_work = [&] {
    work.enter();
    turn.lend_during([] { std::this_thread::yield(); });
    work.enter();
  };
  std::jthread keeper([&] {
    turn.keep([&] {
      sleep_and_work();
      return !ends;
    });
  });
  for (int i = 0; i < kTimes; ++i) {
    turn.try_once([&] { work.enter(); });
    turn.once([&] { work.enter(); });
    turn.visit([&] {
      sleep_and_work();
      return false;
    });
  }
  ends = true;
  keeper.join();
  EXPECT_EQ(work.collisions, 0);
}

TEST(Turn, AGuestWhoFindsAnotherOneGoesAgainAndTheKeeperFollows) {
  std::binary_semaphore keeps(0);
  Turn turn(std::chrono::milliseconds(1));
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

// A keeper who stays away after a guest for longer than any test takes, unless it is wanted.
class WantedKeeper : public testing::Test {
 protected:
  ~WantedKeeper() override {
    ends_ = true;
    go_.release();
  }
  void SetUp() override { polls_.acquire(); }

  void expect_that_it_comes() { EXPECT_TRUE(polls_.try_acquire_for(std::chrono::seconds(60))); }
  // A guest has the turn, and lends it meanwhile.
  void visit_during(const std::function<void()>& meanwhile) {
    turn_.visit([&] {
      turn_.lend_during(meanwhile);
      return false;
    });
  }
  // Its work ends while a guest is here, who leaves then.
  void send_away() {
    visit_during([&] {
      go_.release();
      worked_.acquire();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it stands aside by now
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  Turn turn_{std::chrono::minutes(2)};
  std::atomic<bool> ends_{false};
  std::counting_semaphore<> polls_{0}, go_{0}, worked_{0};
  std::jthread keeper_{[&] {
    turn_.keep([&] {
      turn_.lend_during([&] {
        polls_.release();
        go_.acquire();
      });
      worked_.release();
      return !ends_;
    });
  }};
};

TEST_F(WantedKeeper, ComesWhenTheOneIsGoneForWhomAnotherGuestWaits) {
  send_away();
  std::shared_ptr<void> waits;
  visit_during([&] {
    std::jthread([&] { waits = turn_.visit([] { return ADD_FAILURE() << "two at once", false; }); }).join();
  });
  ASSERT_TRUE(waits);
  expect_that_it_comes();
  send_away();
  expect_that_it_comes();  // he waits still
}

TEST_F(WantedKeeper, ComesForATryThatFailed) {
  send_away();
  turn_.visit([&] {
    std::jthread([&] { EXPECT_FALSE(turn_.try_once([] { FAIL() << "two at once"; })); }).join();
    return false;
  });
  expect_that_it_comes();
}

// Guests of several groups, each of whom waits for something that any of them, or the keeper, may bring.
TEST(Turn, SeveralGuestsAndTheKeeperNeverCollide) {
  Exclusive work;
  std::atomic<bool> ends{false};
  Turn turn(std::chrono::milliseconds(1));
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
  Turn turn(std::chrono::milliseconds(1));
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
