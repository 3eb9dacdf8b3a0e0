// A connection that this node opens to a peer: a DEALER and its monitor. A reconnection is a new session, so
// a connection that breaks is closed and opened anew instead of being left to ZeroMQ, whose queue could hold
// chunks from before. The peer sends on it only where it cannot open one itself. Private to `IoLoop`.
#pragma once

#include <cstdint>
#include <span>
#include <zmq.hpp>

#include "node/sockets/address.hpp"
#include "node/sockets/admission.hpp"
#include "node/sockets/frames.hpp"
#include "node/sockets/monitor.hpp"

namespace rookery {

class Connector {
 public:
  // Nothing is opened yet, but the host's name is resolved, once: whoever does the I/O has no time for that.
  // The other side is told `credentials`.
  Connector(zmq::context_t& context, Address peer, Credentials credentials);
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;
  Connector(Connector&&) = default;
  ~Connector();

  // Opens connection number(), which counts up, and connects in the background, trying again until
  // the peer listens. Throws zmq::error_t where no descriptor is free, or no socket of the context;
  // it is not open then.
  void open();
  // Gives what is queued up to `linger` to leave.
  void close(std::chrono::milliseconds linger = std::chrono::milliseconds(0));
  bool is_open() const { return static_cast<bool>(socket_); }
  bool is_connected() const { return connected_; }
  std::uint32_t number() const { return number_; }

  // Queue a packet; never wait. Nothing happens when the connection is not open.
  void send(std::span<const std::byte> header);
  void send(const OutgoingChunk& chunk);
  // The next message that the other side sent on it, if one is there.
  bool receive(Received& message);

  // To poll: readable when a message is there, or news.
  zmq::socket_ref socket() { return socket_; }
  zmq::socket_ref monitor() { return monitor_.socket(); }
  // The state that the connection has come to since the last time, the worst first.
  enum class News : std::uint8_t {
    kNone,
    kRefused,  // the other side does not admit this node
    kForeign,  // what listens there is no node, or one of another version
    kClosed,   // it stood, and was closed by the other side or the network
  };
  News news();

 private:
  void connect();

  zmq::context_t* context_;
  Address peer_;
  bool is_ipv6_;
  Credentials credentials_;
  zmq::socket_t socket_;
  Monitor monitor_;
  std::uint32_t number_ = 0;
  bool connected_ = false;
};

}  // namespace rookery
