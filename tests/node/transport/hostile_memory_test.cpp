// What a node reads from the memory of its peer, and what stays in its own, whatever the peer does.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

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
  // A chunk in memory that comes over this connection is dropped with a warning, and good data comes through.
  void expect_unread(Wire& wire, const std::string& warning) {
    const std::vector<std::byte> bytes = payload(4, 5);
    wire.send(encode(chunk_in_memory(0, bytes)));
    EXPECT_TRUE(log_.has(warning));
    wire.send(encode(chunk(0, 1000, 4)), payload(4, 9));
    EXPECT_EQ(receive(1000, 4), 9);
  }
};

TEST_F(HostileMemory, BytesThatAreNotInItsMemoryAreNobodys) {
  const std::vector<std::byte> bytes = payload(4, 5);
  DataChunk nowhere = chunk_in_memory(0, bytes);
  nowhere.memory.address = 8;
  peer_.data().send(encode(nowhere));
  EXPECT_TRUE(log_.has("activation x of step 0, micro-batch 0 is no longer in its memory"));
  peer_.data().send(encode(chunk_in_memory(0, bytes)));
  EXPECT_EQ(receive(0, 4), 5);
  peer_.memory().withdraw();  // it gives its memory up
  peer_.data().send(encode(chunk_in_memory(1, bytes)));
  expect_unharmed(1);
}

// It may be that of any process of this user.
TEST_F(HostileMemory, MemoryIsReadOnlyBesideTheMarkThatThisNodeHasDrawn) {
  const OwnMemory other;
  Wire newer(peer_.context(), link_->address());
  newer.send(encode(CtlHello{7, "node_1", Channel::kData, 2, other.offer()}));
  EXPECT_NE(peer_.wait_for<CtlWelcome>().reader, 0U);
  expect_unread(newer, "is no longer in its memory");
}

TEST_F(HostileMemory, MemoryThatWasNotOfferedIsNotRead) {
  Wire newer(peer_.context(), link_->address());
  newer.send(FalsePeer::hello(Channel::kData, 7, 2));
  EXPECT_EQ(peer_.wait_for<CtlWelcome>().reader, 0U);
  expect_unread(newer, "lies in memory that this node does not read");
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

TEST_F(HostileMemory, AChunkIsInAFrameOrInMemory) {
  const std::vector<std::byte> bytes = payload(4, 5);
  peer_.data().send(encode(chunk_in_memory(0, bytes)), bytes);
  EXPECT_TRUE(log_.has("a FwdActivation of 2 frames"));
  peer_.data().send(encode(chunk(0, 0, 4)));
  EXPECT_TRUE(log_.has("a FwdActivation of 1 frames"));
  expect_unharmed();
}

}  // namespace
}  // namespace rookery
