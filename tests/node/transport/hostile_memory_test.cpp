// What a node takes from a local channel and reads from the memory of its peer, and what stays in its own,
// whatever the peer does.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "models/base/error.hpp"
#include "tests/node/transport/false_peer.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;

DataChunk chunk_in_memory(std::uint64_t sequence, const std::vector<std::byte>& bytes) {
  DataChunk made = chunk(sequence, 0, std::ssize(bytes));
  made.memory = {reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size()};
  return made;
}

class HostileMemory : public HostilePeer {
 protected:
  const std::vector<std::byte> bytes_ = payload(4, 5);
};

TEST_F(HostileMemory, BytesThatAreNotInItsMemoryAreNobodys) {
  DataChunk nowhere = chunk_in_memory(0, bytes_);
  nowhere.memory.address = 8;
  peer_.local().send(encode(nowhere));
  EXPECT_TRUE(log_.has("activation x of step 0, micro-batch 0 is no longer in its memory"));
  peer_.local().send(encode(chunk_in_memory(0, bytes_)));
  EXPECT_EQ(receive(0, 4), 5);
  peer_.local().withdraw();  // it gives its memory up
  peer_.local().send(encode(chunk_in_memory(1, bytes_)));
  expect_unharmed(1);
}

// It may be that of any process of this user.
TEST_F(HostileMemory, MemoryIsReadOnlyBesideTheMarkThatThisNodeHasDrawn) {
  LocalSender other;
  other.begin_session();
  Wire newer(peer_.context(), link_->address());
  newer.send(encode(CtlHello{7, "node_1", Channel::kData, 2, other.offer()}));
  const std::uint64_t reader = peer_.wait_for_welcome(2).reader;
  EXPECT_NE(reader, 0U);
  other.admit(reader + 1);
  other.send(encode(chunk_in_memory(0, bytes_)));
  EXPECT_TRUE(log_.has("is no longer in its memory"));
  newer.send(encode(chunk(0, 1000, 4)), payload(4, 9));
  EXPECT_EQ(receive(1000, 4), 9);
}

TEST_F(HostileMemory, OnlyALocalChannelTellsOfMemory) {
  peer_.data().send(encode(chunk_in_memory(0, bytes_)), bytes_);
  EXPECT_TRUE(log_.has("in memory, of which only a local channel tells"));
  expect_unharmed();
}

TEST_F(HostileMemory, ALocalChannelEndsWhereANewConnectionOffersNone) {
  Wire newer(peer_.context(), link_->address());
  newer.send(FalsePeer::hello(Channel::kData, 7, 2));
  EXPECT_EQ(peer_.wait_for_welcome(2).reader, 0U);
  EXPECT_FALSE(peer_.local().send(encode(chunk_in_memory(0, bytes_))));
  newer.send(encode(chunk(0, 1000, 4)), payload(4, 9));
  EXPECT_EQ(receive(1000, 4), 9);
}

TEST_F(HostileMemory, WhatDoesNotBelongOnALocalChannelIsDropped) {
  for (const auto& [header, warning] : std::vector<std::pair<std::vector<std::byte>, std::string>>{
           {payload(10, 1), "not a packet of Rookery"},
           {payload(kMaxHeaderBytes + 1, 1), "the limit is 4096"},
           {encode(CtlHeartbeat{}), "a CtlHeartbeat on the local channel"},
           {FalsePeer::hello(Channel::kData, 7), "a CtlHello on the local channel"},
           {encode(CtlAck{0, {5, 0}}), "acknowledges 5 chunks of 0 sent"}}) {
    EXPECT_TRUE(peer_.local().send(header));
    EXPECT_TRUE(log_.has(warning)) << warning;
  }
  expect_unharmed();
}

// Its receiver may read it at any time: nothing else comes to lie there, though nobody waits for it any more.
TEST_F(HostileMemory, AChunkUnderWayStaysInMemoryUntilTheEndpointEnds) {
  constexpr std::int64_t kBytes = 1 << 16;
  FalsePeer peer;
  const LoopbackOptions options = loopback_options(0);
  std::optional<Endpoint> endpoint(options.endpoint());
  endpoint->start({{.node = "node_1", .address = peer.address()}});
  GroupOptions group = options.group_options();
  group.members = {"node_0", "node_1"};
  std::unique_ptr<ZmqLink> link = endpoint->open(group);
  std::atomic<bool> joined{false};
  std::jthread joining([&] {
    link->join();
    joined = true;
  });
  peer.meet(endpoint->address(), joined);
  Tensor tensor(DType::kU8, {kBytes});
  std::ranges::fill(tensor.as<std::uint8_t>(), std::uint8_t{5});
  link->send(1, {.step = 0, .edge = "x"}, tensor.view());
  const auto sent = peer.wait_for<DataChunk>();
  EXPECT_EQ(peer.read(sent), payload(kBytes, 5));
  link->stop("failed");
  peer.wait_for<CtlStop>();
  link.reset();
  std::vector<std::vector<std::byte>> others;
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
    others.resize(others.size() + 10, payload(kBytes, 6));
    EXPECT_EQ(peer.read(sent), payload(kBytes, 5));
  }
  endpoint.reset();
  EXPECT_TRUE(peer.read(sent).empty());
}

// Whoever waits gives its tensor to the message; whether that is complete or not, the tensor is its own
// again.
TEST_F(HostileMemory, ATensorWhoseMessageStaysIncompleteIsLeft) {
  LoopbackOptions options = loopback_options(0);
  options.deadline = milliseconds(300);
  FalsePeer peer;
  LoopbackLink link(options);
  peer.run_with(link);
  const std::vector<std::byte> half = payload(512, 5), rest = payload(512, 6);
  Tensor tensor(DType::kU8, {1024});
  std::jthread sending([&] {
    std::this_thread::sleep_for(milliseconds(100));
    DataChunk first = chunk_in_memory(0, half);
    first.type.shape = {1024};
    first.total = 1024;
    peer.local().send(encode(first));
  });
  EXPECT_THROW(link.receive(1, {.step = 0, .edge = "x"}, tensor.view()), TransportError);
  sending.join();
  EXPECT_EQ(tensor.as<std::uint8_t>()[511], 5) << "it began to arrive there";
  std::ranges::fill(tensor.as<std::uint8_t>(), std::uint8_t{1});
  DataChunk second = chunk_in_memory(1, rest);
  second.type.shape = {1024};
  second.total = 1024;
  second.offset = 512;
  peer.local().send(encode(second));
  Tensor again(DType::kU8, {1024});
  link.receive(1, {.step = 0, .edge = "x"}, again.view());
  EXPECT_EQ(again.as<std::uint8_t>()[511], 5);
  EXPECT_EQ(again.as<std::uint8_t>()[1023], 6);
  for (const std::uint8_t each : tensor.as<std::uint8_t>()) ASSERT_EQ(each, 1);
}

TEST_F(HostileMemory, AChunkHasItsBytesOrTellsWhereTheyAre) {
  peer_.local().send(encode(chunk(0, 0, 4)));
  EXPECT_TRUE(log_.has("an empty chunk"));
  peer_.data().send(encode(chunk(0, 0, 4)));
  EXPECT_TRUE(log_.has("a FwdActivation of 1 frames"));
  expect_unharmed();
}

}  // namespace
}  // namespace rookery
