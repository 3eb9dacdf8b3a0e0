// "node_1", played by the test: a program that speaks ZeroMQ, has the plan's token, and sends what no node of
// the plan would.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "node/sockets/admission.hpp"
#include "node/transport/local/local_channel.hpp"
#include "node/wire/packets.hpp"
#include "tests/node/transport/loopback.hpp"
#include "tests/support/captured_log.hpp"

namespace rookery {

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
    router_.set(zmq::sockopt::rcvtimeo, 5);
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
    to_node_.begin_session();
    data_->send(encode(CtlHello{7, "node_1", Channel::kData, 1, to_node_.offer()}));
    bool is_welcomed = false;  // on the data channel
    while (!joined || !is_welcomed) {
      const Packet* packet = next(std::chrono::milliseconds(50));
      if (packet == nullptr) continue;
      if (const auto* theirs = std::get_if<CtlHello>(packet)) {
        CtlWelcome welcome{theirs->nonce, theirs->channel, theirs->connection, {{0, {0, 1 << 20}}}, 0};
        if (theirs->channel == Channel::kData) {
          from_node_ = LocalReceiver::open(theirs->memory);
          // None where the hello is of a connection before: its descriptor is gone.
          welcome.reader = from_node_ ? from_node_->memory().reader() : 0;
        }
        control_->send(encode(welcome));
      } else if (const auto* ours = std::get_if<CtlWelcome>(packet)) {
        is_welcomed |= ours->channel == Channel::kData;
        if (ours->reader != 0) to_node_.admit(ours->reader);
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
  const Packet* next(std::chrono::milliseconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    do {
      if (const Packet* packet = next_local()) return packet;
      if (const Packet* packet = next_of_router()) return packet;
    } while (std::chrono::steady_clock::now() < end);
    return nullptr;
  }

  template <typename Wanted>
  Wanted wait_for() {
    for (;;) {
      const Packet* packet = next(std::chrono::seconds(30));
      if (packet == nullptr) throw std::runtime_error("the node sends nothing");
      if (const auto* wanted = std::get_if<Wanted>(packet)) return *wanted;
    }
  }

  // The answer to the hello of this connection.
  CtlWelcome wait_for_welcome(std::uint32_t connection) {
    for (;;) {
      auto welcome = wait_for<CtlWelcome>();
      if (welcome.connection == connection) return welcome;
    }
  }

  // Heartbeats until stopped: a peer that lives.
  void live(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      next(std::chrono::milliseconds(50));
      control_->send(encode(CtlHeartbeat{}));
    }
  }

  static std::vector<std::byte> hello(Channel channel, std::uint64_t nonce, std::uint32_t connection = 1) {
    return encode(CtlHello{nonce, "node_1", channel, connection});
  }

  Wire& control() { return *control_; }
  Wire& data() { return *data_; }
  LocalSender& local() { return to_node_; }
  // The chunk's bytes, from the node's memory; none where they are not there.
  std::vector<std::byte> read(const DataChunk& chunk) const {
    std::vector<std::byte> bytes(chunk.memory.bytes);
    if (!from_node_.value().memory().read(chunk.memory.address, bytes)) bytes.clear();
    return bytes;
  }
  zmq::context_t& context() { return context_; }

 private:
  const Packet* next_local() {
    const auto local = from_node_ ? from_node_->receive() : std::nullopt;
    if (!local) return nullptr;
    newest_ = decode(local->header);
    return &newest_;
  }
  const Packet* next_of_router() {
    zmq::message_t frame;
    if (!router_.recv(frame)) return nullptr;
    static_cast<void>(router_.recv(frame));  // after the connection's id
    newest_ = decode({static_cast<const std::byte*>(frame.data()), frame.size()});
    while (frame.more()) static_cast<void>(router_.recv(frame));
    return &newest_;
  }

  // Lets the node in that it plays against.
  void admit(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      zmq::pollitem_t item{admission_.socket().handle(), 0, ZMQ_POLLIN, 0};
      zmq::poll(&item, 1, std::chrono::milliseconds(20));
      admission_.serve([](int, const std::string&, const std::string&) {});
    }
  }

  zmq::context_t context_;
  Admission admission_{context_, loopback_options(0).key, {"node_0"}};
  zmq::socket_t router_;
  std::string address_;
  std::optional<Wire> control_, data_;
  LocalSender to_node_;
  std::optional<LocalReceiver> from_node_;
  Packet newest_;
  std::jthread admitting_{[this](const std::stop_token& stop) { admit(stop); }};
};

inline DataChunk chunk(std::uint64_t sequence, std::int64_t step, std::int64_t bytes) {
  return {
      0, sequence, {.step = step, .edge = "x"}, {DType::kU8, Shape{bytes}}, static_cast<std::uint64_t>(bytes),
      0};
}

inline std::vector<std::byte> payload(std::size_t size, int value) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

class HostilePeer : public testing::Test {
 protected:
  HostilePeer() {
    LoopbackOptions options = loopback_options(0);
    options.deadline = std::chrono::seconds(30);
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

}  // namespace rookery
