#include "node/transport/threads/link_queues.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <future>
#include <thread>

#include "models/base/error.hpp"
#include "tests/node/transport/message_keys.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kQueuedChunk = 1024;
const TensorType kType{DType::kU8, {1000}};
const std::uint64_t kCost = message_cost(1000, kQueuedChunk);

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
  const LinkQueues::Meanwhile idle_ = [](const std::function<bool()>&, Clock::time_point) { return nullptr; };

  bool is_awake() const {
    pollfd item{waker_.descriptor(), POLLIN, 0};
    return ::poll(&item, 1, 0) == 1;
  }
  LinkQueues::Requests collected() {
    waker_.reset();
    LinkQueues::Requests requests;
    queues_.collect(requests);
    return requests;
  }
  // As a send and a receive do it, which wait.
  void put(int peer, OutgoingMessage message) { put(peer, std::move(message), idle_); }
  void put(int peer, OutgoingMessage message, const LinkQueues::Meanwhile& meanwhile) {
    const std::uint64_t bytes = message.type.bytes();
    while (!queues_.has_room(peer, message.key, bytes))
      queues_.wait_for_room(peer, message.key, bytes, meanwhile);
    queues_.put(peer, std::move(message));
  }
  IncomingMessage take(int peer, const MessageKey& key) {
    for (;;) {
      if (auto message = queues_.take(peer, key)) return std::move(*message);
      queues_.wait_for(peer, key, idle_);
    }
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

  Waker waker_;
  LinkQueues queues_{waker_,       "ring 2",        {"node_1 (a:1)", "node_2 (b:2)"}, 2 * kCost, 2 * kCost,
                     kQueuedChunk, milliseconds(50)};
};

TEST_F(Queues, WhatIsPutIsCollectedInOrder) {
  put(1, outgoing(3));
  put(1, outgoing(4));
  const LinkQueues::Requests requests = collected();
  EXPECT_TRUE(requests.messages[0].empty());
  ASSERT_EQ(requests.messages[1].size(), 2U);
  EXPECT_EQ(requests.messages[1][0].key, key(3));
  EXPECT_EQ(requests.messages[1][1].key, key(4));
  EXPECT_TRUE(collected().messages[1].empty());
}

TEST_F(Queues, BeyondTheBudgetAPutWaitsForAcknowledgements) {
  put(0, outgoing(0));
  put(0, outgoing(1));
  EXPECT_THAT(error_of([&] { put(0, outgoing(2)); }),
              AllOf(HasSubstr("step 2"), HasSubstr("node_1 (a:1) took nothing for 0.05 s")));
  put(1, outgoing(2));  // another peer's budget
  put(0, outgoing(2), [&](const std::function<bool()>& ready, Clock::time_point) {
    EXPECT_FALSE(ready());
    queues_.acknowledged(0, kCost);
    EXPECT_TRUE(ready());
    return nullptr;
  });
}

TEST_F(Queues, ATakeGetsItsMessageWhateverCameBefore) {
  for (const std::int64_t step : {5, 6}) queues_.deliver(1, incoming(step));
  EXPECT_EQ(take(1, key(6)).key, key(6));
  EXPECT_EQ(take(1, key(5)).key, key(5));
  EXPECT_THAT(error_of([&] { take(0, key(5)); }),
              AllOf(HasSubstr("step 5"), HasSubstr("node_1 (a:1) has not sent it for 0.05 s")));
}

TEST_F(Queues, AskingWhetherItIsPossibleNeverWaits) {
  EXPECT_FALSE(queues_.take(0, key(5)));
  for (const std::int64_t step : {0, 1}) put(0, outgoing(step));
  EXPECT_FALSE(queues_.has_room(0, key(2), 1000));
  EXPECT_TRUE(queues_.has_room(1, key(2), 1000));
  queues_.fail("node_2 (b:2) is lost", 0);
  EXPECT_THAT(error_of([&] { queues_.has_room(1, key(2), 1000); }),
              AllOf(HasSubstr("step 2"), HasSubstr("is lost")));
  EXPECT_THAT(error_of([&] { queues_.take(0, key(5)); }), AllOf(HasSubstr("step 5"), HasSubstr("is lost")));
}

TEST_F(Queues, OfferedMemoryIsForOneMessageOfItsType) {
  Tensor tensor(kType);
  const auto given = [&](int peer, std::int64_t step, const TensorType& type) {
    return queues_.memory_for(peer, key(step), type);
  };
  EXPECT_EQ(given(0, 5, kType), nullptr);
  queues_.offer_memory(0, key(5), tensor.view());
  EXPECT_EQ(given(1, 5, kType), nullptr);
  EXPECT_EQ(given(0, 6, kType), nullptr);
  EXPECT_EQ(given(0, 5, {DType::kU8, {5}}), nullptr);
  EXPECT_EQ(given(0, 5, kType), tensor.view().data);
  EXPECT_EQ(given(0, 5, kType), nullptr) << "it is taken";
  EXPECT_TRUE(queues_.withdraw_memory());
  EXPECT_FALSE(queues_.withdraw_memory());
  EXPECT_EQ(given(0, 5, kType), nullptr);
}

TEST_F(Queues, OfferedMemoryIsFreeWhenItsMessageIsComplete) {
  Tensor tensor(kType);
  queues_.offer_memory(0, key(5), tensor.view());
  IncomingMessage message = incoming(5);
  message.bytes = {queues_.memory_for(0, key(5), kType), [](std::byte*) {}};
  EXPECT_FALSE(queues_.deliver(0, std::move(message))) << "nobody waits";
  EXPECT_FALSE(queues_.withdraw_memory());
  EXPECT_EQ(take(0, key(5)).bytes.get(), tensor.view().data);
}

TEST_F(Queues, AMessageInMemoryThatIsLeftHasItsOwn) {
  Tensor tensor(kType);
  queues_.offer_memory(0, key(5), tensor.view());
  IncomingMessage message = incoming(5);
  message.bytes = {queues_.memory_for(0, key(5), kType), [](std::byte*) {}};
  std::ranges::fill(tensor.as<std::uint8_t>(), std::uint8_t{5});
  queues_.deliver(0, std::move(message));
  queues_.leave_memory(0, key(6), tensor.view().data, BufferPool());
  queues_.leave_memory(0, key(5), tensor.view().data + 1, BufferPool());
  queues_.leave_memory(0, key(5), tensor.view().data, BufferPool());
  std::ranges::fill(tensor.as<std::uint8_t>(), std::uint8_t{1});
  const IncomingMessage taken = take(0, key(5));
  EXPECT_EQ(taken.bytes.get()[0], std::byte{5});
  EXPECT_EQ(taken.bytes.get()[999], std::byte{5});
}

TEST_F(Queues, WhatCameTwiceIsRefused) {
  queues_.deliver(0, incoming(5));
  EXPECT_THAT(error_of([&] { queues_.deliver(0, incoming(5)); }), HasSubstr("came twice"));
}

// Credit is granted in steps: every message by itself is not worth waking somebody.
TEST_F(Queues, TakingWakesTheIoOnceItIsWorthIt) {
  for (const std::int64_t step : {0, 1}) queues_.deliver(0, incoming(step));
  take(0, key(0));
  EXPECT_FALSE(is_awake());
  take(0, key(1));
  EXPECT_TRUE(is_awake());
  EXPECT_EQ(collected().released[0], 2 * kCost);
  EXPECT_FALSE(is_awake());
}

TEST_F(Queues, AFailureEndsWhatWaitsAndWhatComes) {
  const auto failing = std::async(std::launch::async, [&] { queues_.fail("node_2 (b:2) is lost", 0); });
  EXPECT_THAT(error_of([&] { queues_.wait_begun(); }), HasSubstr("node_2 (b:2) is lost"));
  EXPECT_THAT(error_of([&] { put(0, outgoing(7)); }), AllOf(HasSubstr("step 7"), HasSubstr("is lost")));
  EXPECT_THAT(error_of([&] { take(0, key(8)); }), AllOf(HasSubstr("step 8"), HasSubstr("is lost")));
}

TEST_F(Queues, AnOwnSignalIsAnInterruption) {
  queues_.fail("node_0 was stopped by SIGTERM", 15);
  EXPECT_THROW(take(0, key(0)), Interrupted);
}

TEST_F(Queues, WhatAPeerHasSentIsTakenAfterItLeft) {
  queues_.deliver(0, incoming(1));
  queues_.depart(0);
  EXPECT_EQ(take(0, key(1)).key, key(1));
  EXPECT_THAT(error_of([&] { take(0, key(2)); }), HasSubstr("has ended its run without sending it"));
  EXPECT_THAT(error_of([&] { put(0, outgoing(2)); }), HasSubstr("has ended its run"));
}

TEST_F(Queues, AFlushWaitsUntilEverythingIsAcknowledged) {
  queues_.wait_flushed(idle_);
  put(1, outgoing(0));
  EXPECT_THAT(error_of([&] { queues_.wait_flushed(idle_); }), HasSubstr("not everything sent has arrived"));
  EXPECT_TRUE(collected().flush);
  std::jthread acknowledging([&] { queues_.acknowledged(1, kCost); });
  queues_.wait_flushed(idle_);
}

}  // namespace
}  // namespace rookery
