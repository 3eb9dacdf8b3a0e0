#include "node/transport/link_queues.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "models/base/error.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kChunk = 1024;
const TensorType kType{DType::kU8, {1000}};
const std::uint64_t kCost = message_cost(1000, kChunk);

MessageKey key(std::int64_t step) {
  return {.step = step, .edge = "x"};
}

OutgoingMessage outgoing(std::int64_t step) {
  return {key(step), kType, BufferPool().take(1000)};
}

IncomingMessage incoming(std::int64_t step) {
  return {key(step), kType, BufferPool().take(1000), kCost};
}

// Room for two messages to each of two peers.
class Queues : public testing::Test {
 protected:
  // In place of I/O nothing is done: the waiting thread sleeps.
  const LinkQueues::Meanwhile idle_ = [](const std::function<bool()>&, Clock::time_point) {};

  bool is_awake() const {
    pollfd item{queues_.wake_descriptor(), POLLIN, 0};
    return ::poll(&item, 1, 0) == 1;
  }
  LinkQueues::Requests collected() {
    LinkQueues::Requests requests;
    queues_.collect(requests);
    return requests;
  }
  template <typename Action>
  static std::string error_of(Action&& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  LinkQueues queues_{{"node_1 (a:1)", "node_2 (b:2)"}, 2 * kCost, 2 * kCost, kChunk, milliseconds(50)};
};

TEST_F(Queues, WhatIsPutIsCollectedInOrder) {
  queues_.put(1, outgoing(3), idle_);
  queues_.put(1, outgoing(4), idle_);
  const LinkQueues::Requests requests = collected();
  EXPECT_TRUE(requests.messages[0].empty());
  ASSERT_EQ(requests.messages[1].size(), 2U);
  EXPECT_EQ(requests.messages[1][0].key, key(3));
  EXPECT_EQ(requests.messages[1][1].key, key(4));
  EXPECT_TRUE(collected().messages[1].empty());
}

TEST_F(Queues, BeyondTheBudgetAPutWaitsForAcknowledgements) {
  queues_.put(0, outgoing(0), idle_);
  queues_.put(0, outgoing(1), idle_);
  EXPECT_THAT(error_of([&] { queues_.put(0, outgoing(2), idle_); }),
              AllOf(HasSubstr("step 2"), HasSubstr("node_1 (a:1) took nothing for 0.05 s")));
  queues_.put(1, outgoing(2), idle_);  // another peer's budget
  queues_.put(0, outgoing(2), [&](const std::function<bool()>& ready, Clock::time_point) {
    EXPECT_FALSE(ready());
    queues_.acknowledged(0, kCost);
    EXPECT_TRUE(ready());
  });
}

TEST_F(Queues, ATakeGetsItsMessageWhateverCameBefore) {
  for (const std::int64_t step : {5, 6}) queues_.deliver(1, incoming(step));
  EXPECT_EQ(queues_.take(1, key(6), idle_).key, key(6));
  EXPECT_EQ(queues_.take(1, key(5), idle_).key, key(5));
  EXPECT_THAT(error_of([&] { queues_.take(0, key(5), idle_); }),
              AllOf(HasSubstr("step 5"), HasSubstr("node_1 (a:1) has not sent it for 0.05 s")));
}

TEST_F(Queues, WhatCameTwiceIsRefused) {
  queues_.deliver(0, incoming(5));
  EXPECT_THAT(error_of([&] { queues_.deliver(0, incoming(5)); }), HasSubstr("came twice"));
}

// Credit is granted in steps: every message by itself is not worth waking somebody.
TEST_F(Queues, TakingWakesTheIoOnceItIsWorthIt) {
  for (const std::int64_t step : {0, 1}) queues_.deliver(0, incoming(step));
  queues_.take(0, key(0), idle_);
  EXPECT_FALSE(is_awake());
  queues_.take(0, key(1), idle_);
  EXPECT_TRUE(is_awake());
  EXPECT_EQ(collected().released[0], 2 * kCost);
  EXPECT_FALSE(is_awake());
}

TEST_F(Queues, AFailureEndsWhatWaitsAndWhatComes) {
  std::jthread failing([&] { queues_.fail("node_2 (b:2) is lost", 0); });
  EXPECT_THAT(error_of([&] { queues_.wait_begun(); }), HasSubstr("node_2 (b:2) is lost"));
  EXPECT_THAT(error_of([&] { queues_.put(0, outgoing(7), idle_); }),
              AllOf(HasSubstr("step 7"), HasSubstr("is lost")));
  EXPECT_THAT(error_of([&] { queues_.take(0, key(8), idle_); }),
              AllOf(HasSubstr("step 8"), HasSubstr("is lost")));
}

TEST_F(Queues, AnOwnSignalIsAnInterruption) {
  queues_.fail("node_0 was stopped by SIGTERM", 15);
  EXPECT_THROW(queues_.take(0, key(0), idle_), Interrupted);
}

TEST_F(Queues, WhatAPeerHasSentIsTakenAfterItLeft) {
  queues_.deliver(0, incoming(1));
  queues_.depart(0);
  EXPECT_EQ(queues_.take(0, key(1), idle_).key, key(1));
  EXPECT_THAT(error_of([&] { queues_.take(0, key(2), idle_); }),
              HasSubstr("has ended its run without sending it"));
  EXPECT_THAT(error_of([&] { queues_.put(0, outgoing(2), idle_); }), HasSubstr("has ended its run"));
}

TEST_F(Queues, AFlushWaitsUntilEverythingIsAcknowledged) {
  queues_.wait_flushed(idle_);
  queues_.put(1, outgoing(0), idle_);
  EXPECT_THAT(error_of([&] { queues_.wait_flushed(idle_); }), HasSubstr("not everything sent has arrived"));
  EXPECT_TRUE(collected().flush);
  std::jthread acknowledging([&] { queues_.acknowledged(1, kCost); });
  queues_.wait_flushed(idle_);
}

}  // namespace
}  // namespace rookery
