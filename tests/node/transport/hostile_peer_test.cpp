// Packets that no node of the plan would send, from a program that speaks ZeroMQ and has the plan's token;
// and, from here on, "node_1" is played by the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"
#include "node/wire/packets.hpp"
#include "tests/node/transport/false_peer.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST_F(HostilePeer, GarbageIsDroppedNamingWhereItCameFrom) {
  Wire stranger(peer_.context(), link_->address());
  stranger.send(payload(64, 0xAB));
  EXPECT_TRUE(log_.has("dropped a packet from node_1 at 127.0.0.1: not a packet of Rookery"));
  expect_unharmed();
}

// Two connections race: the replaced one's hello comes last.
TEST_F(HostilePeer, AnOlderConnectionsHelloReplacesNothing) {
  Wire newer(peer_.context(), link_->address());
  newer.send(FalsePeer::hello(Channel::kData, 7, 2));
  peer_.wait_for_welcome(2);
  peer_.data().send(FalsePeer::hello(Channel::kData, 7));
  peer_.data().send(encode(CtlAckRequest{}));
  EXPECT_TRUE(log_.has("a CtlAckRequest on a connection that has not said hello, or was replaced"));
  newer.send(encode(chunk(0, 1000, 4)), payload(4, 9));
  EXPECT_EQ(receive(1000, 4), 9);
}

TEST_F(HostilePeer, DataBeforeAHelloIsDropped) {
  Wire stranger(peer_.context(), link_->address());
  stranger.send(encode(chunk(0, 1000, 4)), payload(4, 1));
  EXPECT_TRUE(log_.has("node_1 at 127.0.0.1: a FwdActivation on a connection that has not said hello"));
  expect_unharmed();
}

TEST_F(HostilePeer, AStopBeforeAHelloStopsNothing) {
  Wire stranger(peer_.context(), link_->address());
  stranger.send(encode(CtlStop{0, "node_1", "failed", 0}));
  EXPECT_TRUE(log_.has("a CtlStop on a connection that has not said hello"));
  expect_unharmed();
}

TEST_F(HostilePeer, AHelloOfAnotherPlaceIsRefused) {
  Wire stranger(peer_.context(), link_->address());
  stranger.send(encode(CtlHello{1, "node_7", Channel::kControl, 1}));
  EXPECT_TRUE(log_.has("node_7 is not a peer in this plan"));
  expect_unharmed();
}

TEST_F(HostilePeer, AConnectionThatThePlanDoesNotHaveIsRefused) {
  peer_.data().send(FalsePeer::hello(static_cast<Channel>(2), 7));
  EXPECT_TRUE(log_.has("it opens connection 2 for data, where the plan has 1"));
  peer_.control().send(encode(CtlReopen{static_cast<Channel>(2)}));
  peer_.control().send(encode(CtlWelcome{0, static_cast<Channel>(2), 1, {}}));
  expect_unharmed();
}

// 1,024 bytes are the most that a name may have on the wire; none of them reaches the terminal as it is.
TEST_F(HostilePeer, ANameIsShortenedAndEscaped) {
  Wire stranger(peer_.context(), link_->address());
  stranger.send(encode(CtlHello{1, "\x1b[2J\u202e" + std::string(900, 'x'), Channel::kControl, 1}));
  EXPECT_TRUE(log_.has("\\x1b[2J\\u{202e}xxx"));
  EXPECT_TRUE(log_.has("x… is not a peer"));
  EXPECT_FALSE(log_.holds(std::string(kMostOfAName + 1, 'x')));
  expect_unharmed();
}

TEST_F(HostilePeer, AnotherVersionIsNamed) {
  std::vector<std::byte> header = FalsePeer::hello(Channel::kControl, 7);
  header[4] = std::byte{11};
  peer_.control().send(header);
  EXPECT_TRUE(log_.has("node_1 (" + peer_.address() + "): protocol version 11, this program speaks 10"));
  expect_unharmed();
}

TEST_F(HostilePeer, ChunksThatComeTwiceAreDeliveredOnce) {
  for (const int value : {1, 2, 3}) peer_.data().send(encode(chunk(0, 0, 4)), payload(4, value));
  peer_.data().send(encode(chunk(1, 1, 4)), payload(4, 4));
  EXPECT_EQ(receive(1, 4), 4);
  EXPECT_EQ(receive(0, 4), 1);
  expect_unharmed(2);
}

TEST_F(HostilePeer, AKeyThatComesTwiceIsDropped) {
  peer_.data().send(encode(chunk(0, 0, 4)), payload(4, 1));
  peer_.data().send(encode(chunk(1, 0, 4)), payload(4, 2));
  EXPECT_TRUE(log_.has("activation x of step 0, micro-batch 0 came twice"));
  EXPECT_EQ(receive(0, 4), 1);
  expect_unharmed(2);
}

TEST_F(HostilePeer, ATensorBeyondThePlanIsDroppedNamingTheSender) {
  peer_.data().send(encode(chunk(0, 0, 1LL << 40)), payload(4, 1));
  EXPECT_TRUE(log_.has("node_1 (" + peer_.address() +
                       "): activation x of step 0, micro-batch 0: 1099511627776 bytes"));
  expect_unharmed();
}

TEST_F(HostilePeer, AFrameBeyondAChunkClosesTheConnectionOnly) {
  Wire stranger(peer_.context(), link_->address());
  stranger.send(payload(kMaxChunkBytes + 1, 0));
  expect_unharmed();
}

// What an end of a step brings: numbers and parameters.
TEST_F(HostilePeer, ANumberOfAnotherTypeNamesTheSender) {
  std::uint64_t sequence = 0;
  for (const TensorType& type :
       {TensorType{DType::kF32, {1}}, TensorType{DType::kF64, {2}}, TensorType{DType::kU8, {8}}}) {
    const MessageKey key{.kind = MessageKind::kBackwardLearningRate,
                         .step = static_cast<std::int64_t>(sequence)};
    peer_.data().send(encode(DataChunk{0, sequence++, key, type, type.bytes(), 0}), payload(type.bytes(), 1));
    try {
      receive_number(*link_, 1, key);
      FAIL();
    } catch (const TransportError& error) {
      EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("learning rate from step"), HasSubstr("node_1 ("),
                                               HasSubstr(type.to_string()), HasSubstr("expects f64[1]")));
    }
  }
  expect_unharmed(sequence);
}

TEST_F(HostilePeer, ParametersAndNumbersBeforeAHelloAreDropped) {
  Wire stranger(peer_.context(), link_->address());
  for (const auto& [kind, name] : {std::pair(MessageKind::kForwardParameter, "FwdParameter"),
                                   std::pair(MessageKind::kBackwardParameterGradient, "BwdParameterGradient"),
                                   std::pair(MessageKind::kSquares, "Squares"),
                                   std::pair(MessageKind::kBackwardLearningRate, "BwdLearningRate")}) {
    DataChunk forged = chunk(0, 0, 8);
    forged.key.kind = kind;
    stranger.send(encode(forged), payload(8, 0));
    EXPECT_TRUE(log_.has(fmt::format("a {} on a connection that has not said hello", name)));
  }
  expect_unharmed();
}

TEST_F(HostilePeer, ANumberThatComesTwiceCountsOnce) {
  const MessageKey key{.kind = MessageKind::kBackwardLearningRate, .step = 6};
  const TensorType type{DType::kF64, {1}};
  for (const std::uint64_t sequence : {0U, 1U}) {
    peer_.data().send(encode(DataChunk{0, sequence, key, type, 8, 0}), payload(8, sequence == 0 ? 0 : 1));
  }
  EXPECT_TRUE(log_.has("learning rate from step 6 on came twice"));
  EXPECT_EQ(receive_number(*link_, 1, key), 0);
  expect_unharmed(2);
}

TEST_F(HostilePeer, AParameterBeyondThePlanIsDropped) {
  DataChunk large = chunk(0, 0, 1LL << 40);
  large.key = {.kind = MessageKind::kForwardParameter, .step = 0, .edge = "embedding.weight"};
  peer_.data().send(encode(large), payload(4, 1));
  EXPECT_TRUE(log_.has("parameter embedding.weight after step 0: 1099511627776 bytes"));
  expect_unharmed();
}

TEST_F(HostilePeer, PacketsOnTheWrongChannelAreDropped) {
  peer_.control().send(encode(chunk(0, 0, 4)), payload(4, 1));
  EXPECT_TRUE(log_.has("a FwdActivation on the wrong channel"));
  peer_.data().send(encode(CtlStop{0, "node_1", "failed", 0}));
  EXPECT_TRUE(log_.has("a CtlStop on the wrong channel"));
  expect_unharmed();
}

TEST_F(HostilePeer, AnAcknowledgementOfTheFutureIsDropped) {
  peer_.control().send(encode(CtlAck{0, {1000, 0}}));
  EXPECT_TRUE(log_.has("acknowledges 1000 chunks of 0 sent"));
  expect_unharmed();
}

TEST_F(HostilePeer, TextOfAPeerCannotSteerTheTerminal) {
  peer_.control().send(encode(CtlStop{0, "node_1", "failed: \x1b[2J\nall is well", 0}));
  try {
    receive(0, 4);
    FAIL();
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), HasSubstr("failed: \\x1b[2J\\x0aall is well"));
  }
}

// Whatever says that it is a peer does not take its place while it lives.
TEST_F(HostilePeer, AHelloDisplacesNobodyWhoIsAlive) {
  Wire second(peer_.context(), link_->address());
  second.send(FalsePeer::hello(Channel::kControl, 8));
  second.send(FalsePeer::hello(Channel::kData, 8));
  EXPECT_TRUE(log_.has("another process says that it is node_1 (" + peer_.address() + "), which is alive"));
  second.send(encode(CtlStop{0, "node_1", "failed", 0}));
  EXPECT_TRUE(log_.has("a CtlStop on a connection that has not said hello"));
  expect_unharmed();
}

TEST_F(HostilePeer, APeerThatIsRestartedInTheRunIsLost) {
  Wire second(peer_.context(), link_->address());
  peer_.die();
  std::jthread hellos([&](const std::stop_token& stop) {  // until the node has seen that the other is dead
    while (!stop.stop_requested()) {
      second.send(FalsePeer::hello(Channel::kControl, 8));
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  try {
    receive(0, 4);
    FAIL();
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("node_1 ("), HasSubstr("restarted during the run")));
  }
}

// While peers are awaited, too, nobody ends the run who does not listen at a peer's address.
TEST(HostileNewcomer, CannotStopANodeThatWaits) {
  CapturedLog log;
  LoopbackLink link(loopback_options(0));
  FalsePeer peer;
  std::atomic<bool> joined{false};
  std::jthread joining([&] {
    link.join({{1, "node_1", peer.address()}});
    joined = true;
  });
  Wire stranger(peer.context(), link.address());
  stranger.send(FalsePeer::hello(Channel::kControl, 666));
  stranger.send(encode(CtlStop{0, "node_1", "failed", 0}));
  EXPECT_TRUE(log.has("a stop from a process that has not welcomed this node"));
  EXPECT_FALSE(joined);
  peer.meet(link.address(), joined);
  EXPECT_TRUE(joined);
}

TEST_F(HostilePeer, ADeadlineSaysWhatAPeerThatLivesIsDoing) {
  LoopbackOptions options = loopback_options(0);
  options.deadline = milliseconds(300);
  FalsePeer idle;
  LoopbackLink link(options);
  idle.run_with(link);
  std::jthread living([&](const std::stop_token& stop) { idle.live(stop); });
  Tensor into(DType::kU8, {1});
  try {
    link.receive(1, {.step = 41, .edge = "x"}, into.view());
    FAIL();
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("step 41"), HasSubstr("node_1 ("),
                                             HasSubstr("is alive"), HasSubstr("stood still")));
  }
}

}  // namespace
}  // namespace rookery
