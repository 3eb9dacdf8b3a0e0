// Packets that no node of the plan would send, from a program that speaks ZeroMQ and has the plan's token;
// and, from here on, "node_1" is played by the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <stdexcept>
#include <thread>
#include <zmq.hpp>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"
#include "node/sockets/admission.hpp"
#include "node/transport/peer_memory.hpp"
#include "node/wire/packets.hpp"
#include "tests/node/transport/loopback.hpp"
#include "tests/support/captured_log.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// One connection to a node, over which node_1 sends anything.
class Wire {
 public:
  Wire(zmq::context_t& context, const std::string& address, const std::string& node = "node_1")
      : socket_(context, zmq::socket_type::dealer) {
    const Credentials introduction = credentials(node, loopback_options(0).key);
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::plain_username, introduction.user);
    socket_.set(zmq::sockopt::plain_password, introduction.password);
    socket_.connect("tcp://" + address);
  }
  void send(const std::vector<std::byte>& header) {
    socket_.send(zmq::buffer(header), zmq::send_flags::none);
  }
  void send(const std::vector<std::byte>& header, const std::vector<std::byte>& payload) {
    socket_.send(zmq::buffer(header), zmq::send_flags::sndmore);
    socket_.send(zmq::buffer(payload), zmq::send_flags::none);
  }

 private:
  zmq::socket_t socket_;
};

// node_1, played by the test: says hello, welcomes, and then does what the test wants.
class FalsePeer {
 public:
  FalsePeer() : router_(context_, zmq::socket_type::router) {
    router_.set(zmq::sockopt::linger, 0);
    router_.set(zmq::sockopt::plain_server, true);
    router_.bind("tcp://127.0.0.1:*");
    address_ = router_.get(zmq::sockopt::last_endpoint).substr(6);
  }
  // As the process's end does.
  void die() {
    control_.reset();
    data_.reset();
    router_.close();
  }

  const std::string& address() const { return address_; }

  // Plays the beginning of a run with the node at `address`: welcomes all its hellos until it has
  // joined. It may open its connections anew when it first hears from us.
  void meet(const std::string& address, const std::atomic<bool>& joined) {
    control_.emplace(context_, address);
    data_.emplace(context_, address);
    control_->send(hello(Channel::kControl, 7));
    data_->send(encode(CtlHello{7, "node_1", Channel::kData, 1, memory_.offer()}));
    router_.set(zmq::sockopt::rcvtimeo, 50);
    while (!joined) {
      const Packet* packet = next();
      if (packet == nullptr) continue;
      if (const auto* theirs = std::get_if<CtlHello>(packet)) {
        CtlWelcome welcome{theirs->nonce, theirs->channel, theirs->connection, {{0, {0, 1 << 20}}}, 0};
        if (theirs->channel == Channel::kData) {
          nodes_memory_ = PeerMemory::open(theirs->memory);
          welcome.reader = nodes_memory_.value().reader();
        }
        control_->send(encode(welcome));
      } else if (const auto* ours = std::get_if<CtlWelcome>(packet); ours != nullptr && ours->reader != 0) {
        memory_.admit(ours->reader);
      } else if (std::holds_alternative<CtlJoin>(*packet)) {
        control_->send(
            encode(CtlJoin{.group = 0, .rank = 1, .ranks = 2, .knows = true, .position = {0, 1 << 20}}));
      }
    }
  }

  // Both join.
  void run_with(LoopbackLink& link) {
    std::atomic<bool> joined{false};
    std::jthread joining([&] {
      link.join({{1, "node_1", address()}});
      joined = true;
    });
    meet(link.address(), joined);
  }

  // The next packet that the node sends; nullptr when none comes in time.
  const Packet* next() {
    zmq::message_t frame;
    if (!router_.recv(frame)) return nullptr;
    static_cast<void>(router_.recv(frame));  // after the connection's id
    newest_ = decode({static_cast<const std::byte*>(frame.data()), frame.size()});
    while (frame.more()) static_cast<void>(router_.recv(frame));
    return &newest_;
  }

  template <typename Wanted>
  Wanted wait_for() {
    router_.set(zmq::sockopt::rcvtimeo, 30'000);
    for (;;) {
      const Packet* packet = next();
      if (packet == nullptr) throw std::runtime_error("the node sends nothing");
      if (const auto* wanted = std::get_if<Wanted>(packet)) return *wanted;
    }
  }

  // Heartbeats until stopped: a peer that lives.
  void live(const std::stop_token& stop) {
    router_.set(zmq::sockopt::rcvtimeo, 50);
    while (!stop.stop_requested()) {
      next();
      control_->send(encode(CtlHeartbeat{}));
    }
  }

  static std::vector<std::byte> hello(Channel channel, std::uint64_t nonce, std::uint32_t connection = 1) {
    return encode(CtlHello{nonce, "node_1", channel, connection});
  }

  Wire& control() { return *control_; }
  Wire& data() { return *data_; }
  OwnMemory& memory() { return memory_; }
  // The chunk's bytes, from the node's memory; none where they are not there.
  std::vector<std::byte> read(const DataChunk& chunk) const {
    std::vector<std::byte> bytes(chunk.memory.bytes);
    if (!nodes_memory_.value().read(chunk.memory.address, bytes)) bytes.clear();
    return bytes;
  }
  zmq::context_t& context() { return context_; }

 private:
  // Lets the node in that it plays against.
  void admit(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      zmq::pollitem_t item{admission_.socket().handle(), 0, ZMQ_POLLIN, 0};
      zmq::poll(&item, 1, milliseconds(20));
      admission_.serve([](int, const std::string&, const std::string&) {});
    }
  }

  zmq::context_t context_;
  Admission admission_{context_, loopback_options(0).key, {"node_0"}};
  zmq::socket_t router_;
  std::string address_;
  std::optional<Wire> control_, data_;
  OwnMemory memory_;
  std::optional<PeerMemory> nodes_memory_;
  Packet newest_;
  std::jthread admitting_{[this](const std::stop_token& stop) { admit(stop); }};
};

DataChunk chunk(std::uint64_t sequence, std::int64_t step, std::int64_t bytes) {
  return {
      0, sequence, {.step = step, .edge = "x"}, {DType::kU8, Shape{bytes}}, static_cast<std::uint64_t>(bytes),
      0};
}

std::vector<std::byte> payload(std::size_t size, int value) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

class HostilePeer : public testing::Test {
 protected:
  HostilePeer() {
    LoopbackOptions options = loopback_options(0);
    options.deadline = seconds(30);
    options.max_message_bytes = 4096;
    link_ = std::make_unique<LoopbackLink>(options);
    peer_.run_with(*link_);
  }

  std::uint8_t receive(std::int64_t step, std::int64_t bytes) {
    Tensor tensor(DType::kU8, {bytes});
    link_->receive(1, {.step = step, .edge = "x"}, tensor.view());
    return tensor.as<std::uint8_t>()[0];
  }

  // Good data still comes through.
  void expect_unharmed(std::uint64_t sequence = 0) {
    peer_.data().send(encode(chunk(sequence, 1000, 4)), payload(4, 9));
    EXPECT_EQ(receive(1000, 4), 9);
  }

  CapturedLog log_;
  FalsePeer peer_;
  std::unique_ptr<LoopbackLink> link_;
};

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
  while (peer_.wait_for<CtlWelcome>().connection != 2) continue;
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
  header[4] = std::byte{10};
  peer_.control().send(header);
  EXPECT_TRUE(log_.has("node_1 (" + peer_.address() + "): protocol version 10, this program speaks 9"));
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

DataChunk chunk_in_memory(std::uint64_t sequence, const std::vector<std::byte>& bytes) {
  DataChunk made = chunk(sequence, 0, std::ssize(bytes));
  made.memory = {reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size()};
  return made;
}

TEST_F(HostilePeer, BytesThatAreNotInItsMemoryAreNobodys) {
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
TEST_F(HostilePeer, MemoryIsReadOnlyBesideTheMarkThatThisNodeHasDrawn) {
  const OwnMemory other;
  const std::vector<std::byte> bytes = payload(4, 5);
  Wire newer(peer_.context(), link_->address());
  newer.send(encode(CtlHello{7, "node_1", Channel::kData, 2, other.offer()}));
  EXPECT_NE(peer_.wait_for<CtlWelcome>().reader, 0U);
  newer.send(encode(chunk_in_memory(0, bytes)));
  EXPECT_TRUE(log_.has("is no longer in its memory"));
  newer.send(encode(chunk(0, 1000, 4)), payload(4, 9));
  EXPECT_EQ(receive(1000, 4), 9);
}

TEST_F(HostilePeer, MemoryThatWasNotOfferedIsNotRead) {
  const std::vector<std::byte> bytes = payload(4, 5);
  Wire newer(peer_.context(), link_->address());
  newer.send(FalsePeer::hello(Channel::kData, 7, 2));
  EXPECT_EQ(peer_.wait_for<CtlWelcome>().reader, 0U);
  newer.send(encode(chunk_in_memory(0, bytes)));
  EXPECT_TRUE(log_.has("lies in memory that this node does not read"));
  newer.send(encode(chunk(0, 1000, 4)), payload(4, 9));
  EXPECT_EQ(receive(1000, 4), 9);
}

// Its receiver may read it at any time: nothing else comes to lie there, though nobody waits for it any more.
TEST_F(HostilePeer, AChunkUnderWayStaysInMemoryUntilTheEndpointEnds) {
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

TEST_F(HostilePeer, AChunkIsInAFrameOrInMemory) {
  const std::vector<std::byte> bytes = payload(4, 5);
  peer_.data().send(encode(chunk_in_memory(0, bytes)), bytes);
  EXPECT_TRUE(log_.has("a FwdActivation of 2 frames"));
  peer_.data().send(encode(chunk(0, 0, 4)));
  EXPECT_TRUE(log_.has("a FwdActivation of 1 frames"));
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
