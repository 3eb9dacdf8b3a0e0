#include "node/wire/stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <span>
#include <utility>

#include "models/base/error.hpp"
#include "tests/node/wire/sent_chunk.hpp"

namespace rookery {
namespace {

using Verdict = ReceiveStream::Verdict;

constexpr std::size_t kChunk = 16;
constexpr std::uint64_t kBig = 1 << 20;

OutgoingMessage message(std::int64_t step, std::int64_t bytes) {
  OutgoingMessage made{
      {.step = step, .edge = "x"}, {DType::kU8, Shape{bytes}}, std::make_shared<std::byte[]>(bytes)};
  for (std::int64_t i = 0; i < bytes; ++i) made.bytes[i] = static_cast<std::byte>(step + i);
  return made;
}

bool same(const IncomingMessage& in, const OutgoingMessage& out) {
  return in.key == out.key && in.type == out.type &&
         std::equal(in.bytes.get(), in.bytes.get() + in.type.bytes(), out.bytes.get());
}

SharedBytes copy_of(std::span<const std::byte> payload) {
  SharedBytes copied = std::make_shared<std::byte[]>(payload.size());
  std::ranges::copy(payload, copied.get());
  return copied;
}

TEST(SendStream, SendsNothingBeforeItIsWelcomed) {
  SendStream out(kChunk);
  out.push(message(0, 4));
  EXPECT_EQ(out.next(kNow), nullptr);
  out.resume({0, kBig}, kNow);
  EXPECT_NE(out.next(kNow), nullptr);
}

TEST(SendStream, CutsAMessageIntoChunks) {
  SendStream out(kChunk);
  out.resume({0, kBig}, kNow);
  out.push(message(0, 40));
  std::vector<std::size_t> sizes;
  std::vector<std::uint64_t> offsets;
  while (const OutgoingChunk* chunk = out.next(kNow)) {
    sizes.push_back(chunk->payload.size());
    offsets.push_back(header_of(*chunk).offset);
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{16, 16, 8}));
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{0, 16, 32}));
}

TEST(SendStream, StaysWithinItsCredit) {
  SendStream out(kChunk);
  out.resume({0, 2 * chunk_cost(kChunk)}, kNow);
  out.push(message(0, 3 * kChunk));
  EXPECT_NE(out.next(kNow), nullptr);
  EXPECT_NE(out.next(kNow), nullptr);
  EXPECT_EQ(out.next(kNow), nullptr);
  EXPECT_EQ(out.acknowledge({1, 3 * chunk_cost(kChunk)}, kNow), chunk_cost(kChunk));
  EXPECT_NE(out.next(kNow), nullptr);
}

TEST(SendStream, GoesBackToWhatTheReceiverHas) {
  SendStream out(kChunk);
  out.resume({0, kBig}, kNow);
  for (int i = 0; i < 5; ++i) out.push(message(i, 4));
  while (out.next(kNow) != nullptr) {
  }
  out.suspend();
  EXPECT_EQ(out.next(kNow), nullptr);
  out.resume({2, kBig}, kNow);
  EXPECT_EQ(header_of(*out.next(kNow)).sequence, 2U);
  EXPECT_EQ(header_of(*out.next(kNow)).sequence, 3U);
}

TEST(SendStream, AnAcknowledgementOfTheFutureIsRefused) {
  SendStream out(kChunk);
  out.resume({0, kBig}, kNow);
  out.push(message(0, 4));
  EXPECT_THROW(out.acknowledge({1, kBig}, kNow), TransportError);
  out.next(kNow);
  EXPECT_NO_THROW(out.acknowledge({1, kBig}, kNow));
  EXPECT_TRUE(out.empty());
}

TEST(SendStream, StallsWhileNothingIsAcknowledged) {
  SendStream out(kChunk);
  out.resume({0, kBig}, kNow);
  EXPECT_FALSE(out.stalled_since());
  out.push(message(0, 2 * kChunk));
  const auto later = kNow + std::chrono::seconds(1);
  out.next(later);
  out.next(later);
  EXPECT_EQ(out.stalled_since(), later);
  out.acknowledge({1, kBig}, later + std::chrono::seconds(1));
  EXPECT_EQ(out.stalled_since(), later + std::chrono::seconds(1));
  out.acknowledge({2, kBig}, later + std::chrono::seconds(2));
  EXPECT_FALSE(out.stalled_since());
}

class ReceiveStreamTest : public testing::Test {
 protected:
  // With a payload of zeros.
  Verdict offer(const DataChunk& chunk, std::size_t payload) {
    SharedBytes zeros = std::make_shared<std::byte[]>(payload);
    return in_.offer(chunk, Payload::of({zeros.get(), payload}, [&] { return zeros; }));
  }
  static DataChunk chunk(std::uint64_t sequence, std::int64_t step, std::int64_t bytes,
                         std::uint64_t offset = 0) {
    return {0,
            sequence,
            {.step = step, .edge = "x"},
            {DType::kU8, Shape{bytes}},
            static_cast<std::uint64_t>(bytes),
            offset};
  }

  static constexpr std::uint64_t kBudget = 2 * chunk_cost(100);
  ReceiveStream in_{kBudget, 150};
};

TEST_F(ReceiveStreamTest, DuplicatesChangeNothing) {
  EXPECT_EQ(offer(chunk(0, 0, 4), 4), Verdict::kAccepted);
  EXPECT_TRUE(in_.take_message());
  EXPECT_EQ(offer(chunk(0, 0, 4), 4), Verdict::kDuplicate);
  EXPECT_FALSE(in_.take_message());
  EXPECT_EQ(in_.position().received, 1U);
}

TEST_F(ReceiveStreamTest, WhatHasOvertakenOthersIsHeldForThem) {
  EXPECT_EQ(offer(chunk(1, 1, 4), 4), Verdict::kHeld);
  EXPECT_EQ(offer(chunk(1, 1, 4), 4), Verdict::kDuplicate);
  EXPECT_FALSE(in_.take_message());
  EXPECT_EQ(in_.position().received, 0U);
  EXPECT_EQ(offer(chunk(0, 0, 4), 4), Verdict::kAccepted);
  EXPECT_EQ(in_.take_message()->key.step, 0);
  EXPECT_EQ(in_.take_message()->key.step, 1);
  EXPECT_FALSE(in_.take_message());
  EXPECT_EQ(in_.position().received, 2U);
}

TEST_F(ReceiveStreamTest, CreditBoundsWhatIsHeld) {
  EXPECT_EQ(offer(chunk(2, 2, 100), 100), Verdict::kHeld);
  EXPECT_EQ(offer(chunk(1, 1, 100), 100), Verdict::kHeld);
  EXPECT_THROW(offer(chunk(3, 3, 1), 1), TransportError);
}

TEST_F(ReceiveStreamTest, WhatWasHeldAndDoesNotFitIsDropped) {
  EXPECT_EQ(offer(chunk(1, 1, 100, 50), 50), Verdict::kHeld);  // begins in the middle
  EXPECT_THROW(offer(chunk(0, 0, 4), 4), TransportError);
  EXPECT_EQ(in_.take_message()->key.step, 0);
  EXPECT_EQ(in_.position().received, 1U);
  EXPECT_EQ(offer(chunk(1, 1, 4), 4), Verdict::kAccepted);
  EXPECT_EQ(in_.take_message()->key.step, 1);
}

TEST_F(ReceiveStreamTest, AMessageBeyondThePlanIsRefusedBeforeMemoryIsTaken) {
  EXPECT_THROW(offer(chunk(0, 0, 1LL << 40), 100), TransportError);
  EXPECT_EQ(in_.position().received, 0U);
}

TEST_F(ReceiveStreamTest, AMessageOfOneChunkMayStayWhereItCame) {
  in_ = ReceiveStream(kBudget, 150, BufferPool(), true);
  SharedBytes came = std::make_shared<std::byte[]>(100);
  const std::function<SharedBytes()> keep = [&] { return came; };
  EXPECT_EQ(in_.offer(chunk(0, 0, 100), Payload::of({came.get(), 100}, keep)), Verdict::kAccepted);
  const auto first = in_.take_message();
  EXPECT_EQ(first->bytes, came);
  in_.release(first->cost);
  EXPECT_EQ(in_.offer(chunk(1, 1, 100), Payload::of({came.get(), 60}, keep)),
            Verdict::kAccepted);  // a part of it is copied
  EXPECT_EQ(in_.offer(chunk(2, 1, 100, 60), Payload::of({came.get(), 40}, keep)), Verdict::kAccepted);
  EXPECT_NE(in_.take_message()->bytes, came);
  EXPECT_THROW(in_.offer(chunk(3, 2, 1LL << 40), Payload::of({came.get(), 100}, keep)), TransportError);
}

TEST_F(ReceiveStreamTest, AMessageComesToLieInTheMemoryThatItsFirstChunkIsGiven) {
  std::vector<std::byte> ones(100, std::byte{1}), memory(100), other(100);
  const Payload first = Payload::of(std::span(ones).first(60), nullptr);
  const Payload rest = Payload::of(std::span(ones).last(40), nullptr);
  EXPECT_EQ(in_.offer(chunk(0, 0, 100), first, memory.data()), Verdict::kAccepted);
  EXPECT_EQ(in_.offer(chunk(0, 0, 100), first, other.data()), Verdict::kDuplicate);
  EXPECT_FALSE(in_.leave_memory(other.data()));
  EXPECT_EQ(in_.offer(chunk(1, 0, 100, 60), rest), Verdict::kAccepted);
  EXPECT_FALSE(in_.leave_memory(memory.data())) << "it is complete";
  EXPECT_EQ(in_.take_message()->bytes.get(), memory.data());
  EXPECT_EQ(memory, ones);
  EXPECT_EQ(other, std::vector<std::byte>(100));
}

TEST_F(ReceiveStreamTest, AMessageThatHasToLeaveItsMemoryGoesOnElsewhere) {
  std::vector<std::byte> ones(100, std::byte{1}), memory(100);
  in_.offer(chunk(0, 0, 100), Payload::of(std::span(ones).first(60), nullptr), memory.data());
  EXPECT_TRUE(in_.leave_memory(memory.data()));
  std::ranges::fill(memory, std::byte{2});
  in_.offer(chunk(1, 0, 100, 60), Payload::of(std::span(ones).last(40), nullptr));
  const auto message = in_.take_message();
  EXPECT_EQ(std::vector<std::byte>(message->bytes.get(), message->bytes.get() + 100), ones);
  EXPECT_EQ(memory, std::vector<std::byte>(100, std::byte{2}));
}

TEST_F(ReceiveStreamTest, AMessageThatLiesWhereNoElementMayIsCopied) {
  in_ = ReceiveStream(kBudget, 150, BufferPool(), true);
  const SharedBytes packet = std::make_shared<std::byte[]>(101);
  SharedBytes came(packet, packet.get() + 1);
  came[99] = std::byte{7};
  EXPECT_EQ(in_.offer(chunk(0, 0, 100), Payload::of({came.get(), 100}, [&] { return came; })),
            Verdict::kAccepted);
  const auto message = in_.take_message();
  EXPECT_NE(message->bytes, came);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(message->bytes.get()) % alignof(double), 0U);
  EXPECT_EQ(message->bytes[99], std::byte{7});
}

TEST_F(ReceiveStreamTest, ContradictionsAreRefused) {
  EXPECT_THROW(offer(chunk(0, 0, 100, 50), 50), TransportError);  // begins in the middle
  EXPECT_THROW(offer(chunk(0, 0, 100), 101), TransportError);     // longer than the whole
  EXPECT_THROW(offer(chunk(0, 0, 100), 0), TransportError);       // no progress
  EXPECT_EQ(offer(chunk(0, 0, 100), 50), Verdict::kAccepted);
  EXPECT_THROW(offer(chunk(1, 1, 100, 50), 50), TransportError);  // another message
  EXPECT_THROW(offer(chunk(1, 0, 100, 49), 50), TransportError);  // overlaps
  EXPECT_THROW(offer(chunk(1, 0, 120, 50), 50), TransportError);  // another size
  EXPECT_EQ(offer(chunk(1, 0, 100, 50), 50), Verdict::kAccepted);
  EXPECT_TRUE(in_.take_message());
}

TEST_F(ReceiveStreamTest, CreditIsABound) {
  EXPECT_EQ(offer(chunk(0, 0, 100), 100), Verdict::kAccepted);
  const auto first = in_.take_message();
  EXPECT_EQ(offer(chunk(1, 1, 100), 100), Verdict::kAccepted);
  in_.take_message();
  EXPECT_THROW(offer(chunk(2, 2, 1), 1), TransportError);
  in_.release(first->cost);
  EXPECT_EQ(offer(chunk(2, 2, 1), 1), Verdict::kAccepted);
}

// Sender and receiver over wires that are cut again and again, and on which chunks overtake each other: all
// arrives, in order, once, and the receiver never holds more than its budget.
RC_GTEST_PROP(StreamProperty, DeliversExactlyOnceOverCuts, ()) {
  const auto sizes = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 60));
  std::minstd_rand random(*rc::gen::arbitrary<std::uint32_t>());
  std::vector<std::deque<OutgoingChunk>> wires(*rc::gen::inRange<std::size_t>(1, 5));
  constexpr std::uint64_t kBudget = 3000;
  SendStream out(kChunk);
  ReceiveStream in(kBudget, 60);
  std::vector<OutgoingMessage> sent;
  for (const int size : sizes) {
    sent.push_back(message(static_cast<std::int64_t>(sent.size()), size));
    out.push(sent.back());
  }
  std::vector<IncomingMessage> arrived;
  std::uint64_t held = 0;
  out.resume(in.position(), kNow);
  while (arrived.size() < sent.size()) {
    const auto luck = random() % 10;
    std::deque<OutgoingChunk>& wire = wires[random() % wires.size()];
    if (luck == 0) {  // it is cut: what was under way on it is gone, and all is sent again
      wire.clear();
      out.suspend();
      out.resume(in.position(), kNow);
    }
    if (const OutgoingChunk* chunk = out.next(kNow)) wires[random() % wires.size()].push_back(*chunk);
    if (luck != 1 && !wire.empty()) {
      const std::span<const std::byte> payload = wire.front().payload;
      in.offer(header_of(wire.front()), Payload::of(payload, [&] { return copy_of(payload); }));
      wire.pop_front();
      while (auto whole = in.take_message()) {
        held += whole->cost;
        arrived.push_back(std::move(*whole));
      }
      RC_ASSERT(held <= kBudget);
    }
    if (luck > 5) {
      in.release(std::exchange(held, 0));
      out.acknowledge(in.position(), kNow);
    }
  }
  RC_ASSERT(arrived.size() == sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) RC_ASSERT(same(arrived[i], sent[i]));
  out.acknowledge(in.position(), kNow);
  RC_ASSERT(out.empty());
}

}  // namespace
}  // namespace rookery
