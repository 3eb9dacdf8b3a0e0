#include "node/wire/send_order.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "tests/node/wire/sent_chunk.hpp"

namespace rookery {
namespace {

constexpr std::size_t kLargeChunk = 64U << 10;
constexpr std::uint64_t kPlenty = 1ULL << 40;

// A stream whose connection stands, with credit.
std::unique_ptr<SendStream> stream_of(GroupId group, int chunks) {
  auto stream = std::make_unique<SendStream>(kLargeChunk, group);
  stream->resume({0, kPlenty}, kNow);
  const auto bytes = static_cast<std::int64_t>(kLargeChunk) * chunks;
  if (chunks > 0)
    stream->push(
        {{.edge = "x"}, {DType::kU8, Shape{bytes}}, BufferPool().take(static_cast<std::uint64_t>(bytes))});
  return stream;
}

// Whose chunks come next, until none may be sent.
std::vector<GroupId> groups_of(SendOrder& order, int most = 1000) {
  std::vector<GroupId> groups;
  while (static_cast<int>(groups.size()) < most) {
    const OutgoingChunk* chunk = order.next(kNow);
    if (chunk == nullptr) break;
    groups.push_back(header_of(*chunk).group);
  }
  return groups;
}

TEST(SendOrder, UrgentChunksGoFirstWhoeverHadHisBefore) {
  const auto ring = stream_of(1, 2);
  const auto pipeline = stream_of(0, 3);
  SendOrder order;
  order.add(1, *ring);
  order.add(0, *pipeline);
  EXPECT_EQ(groups_of(order), (std::vector<GroupId>{0, 0, 0, 1, 1}));
}

// Else an urgent chunk would stand behind all that was handed over before it came.
TEST(SendOrder, OthersHaveOnlySoMuchUnderWay) {
  const auto ring = stream_of(1, 200);
  const auto pipeline = stream_of(0, 0);
  SendOrder order;
  order.add(0, *pipeline);
  order.add(1, *ring);
  const std::size_t sent = groups_of(order).size();
  EXPECT_LE(sent, 1 + SendOrder::kBackgroundWindow / chunk_cost(kLargeChunk));
  EXPECT_GE(sent, SendOrder::kBackgroundWindow / chunk_cost(kLargeChunk));
  ring->acknowledge({4, kPlenty}, kNow);
  EXPECT_EQ(groups_of(order).size(), 4U);
}

TEST(SendOrder, AGroupAloneMayUseAllItsCredit) {
  const auto ring = stream_of(1, 200);
  SendOrder order;
  order.add(1, *ring);
  EXPECT_EQ(groups_of(order).size(), 200U);
}

TEST(SendOrder, OneChunkInSixteenIsForThoseWhoWouldNeverSend) {
  const auto pipeline = stream_of(0, 64);
  const auto ring = stream_of(1, 64);
  SendOrder order;
  order.add(0, *pipeline);
  order.add(1, *ring);
  std::map<GroupId, int> counts;
  for (const GroupId group : groups_of(order, 64)) ++counts[group];
  EXPECT_EQ(counts[0], 60);
  EXPECT_EQ(counts[1], 4);
}

TEST(SendOrder, ThoseOfOnePriorityTakeTurns) {
  const auto first = stream_of(1, 3);
  const auto second = stream_of(2, 3);
  SendOrder order;
  order.add(1, *first);
  order.add(1, *second);
  EXPECT_EQ(groups_of(order), (std::vector<GroupId>{1, 2, 1, 2, 1, 2}));
}

TEST(SendOrder, WhatIsRemovedSendsNothingAndHoldsBackNobody) {
  const auto pipeline = stream_of(0, 3);
  const auto ring = stream_of(1, 200);
  SendOrder order;
  order.add(0, *pipeline);
  order.add(1, *ring);
  order.remove(*pipeline);
  EXPECT_EQ(groups_of(order).size(), 200U);
}

// Whatever is pushed and acknowledged when: each stream's chunks go in their order, once each, and none is
// left.
RC_GTEST_PROP(SendOrderProperty, EveryStreamIsSentWholeAndInOrder, ()) {
  const int streams = *rc::gen::inRange(1, 5);
  std::vector<std::unique_ptr<SendStream>> all;
  std::vector<std::uint64_t> expected(streams);
  std::vector<int> pushed(streams);
  SendOrder order;
  for (int i = 0; i < streams; ++i) {
    all.push_back(stream_of(static_cast<GroupId>(i), 0));
    order.add(*rc::gen::inRange(0, 3), *all.back());
  }
  const auto send = [&](int most) {
    for (int i = 0; i < most; ++i) {
      const OutgoingChunk* chunk = order.next(kNow);
      if (chunk == nullptr) return;
      const DataChunk header = header_of(*chunk);
      RC_ASSERT(header.sequence == expected[header.group]);
      ++expected[header.group];
    }
  };
  const auto acknowledge = [&](int i) { all[i]->acknowledge({expected[i], kPlenty}, kNow); };
  for (int i = *rc::gen::inRange(0, 60); i > 0; --i) {
    const int stream = *rc::gen::inRange(0, streams);
    const int what = *rc::gen::inRange(0, 3);
    if (what == 0) {
      const int chunks = *rc::gen::inRange(1, 20);
      const auto bytes = static_cast<std::int64_t>(kLargeChunk) * chunks;
      all[stream]->push({{.step = i, .edge = "x"},
                         {DType::kU8, Shape{bytes}},
                         BufferPool().take(static_cast<std::uint64_t>(bytes))});
      pushed[stream] += chunks;
    } else if (what == 1) {
      send(*rc::gen::inRange(1, 30));
    } else {
      acknowledge(stream);
    }
  }
  for (int i = 0; i < 200; ++i) {
    send(1000);
    for (int stream = 0; stream < streams; ++stream) acknowledge(stream);
  }
  for (int stream = 0; stream < streams; ++stream) {
    RC_ASSERT(expected[stream] == static_cast<std::uint64_t>(pushed[stream]));
    RC_ASSERT(all[stream]->empty());
  }
}

}  // namespace
}  // namespace rookery
