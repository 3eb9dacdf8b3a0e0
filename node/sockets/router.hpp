// The socket to which others connect: a ROUTER that lets in whom `Admission` lets in. Frames are bounded
// before ZeroMQ takes memory for them, and so is the number of connections. Private to `IoLoop`.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <zmq.hpp>

#include "node/sockets/frames.hpp"
#include "node/sockets/listener.hpp"
#include "node/sockets/monitor.hpp"
#include "node/wire/stream.hpp"

namespace rookery {

class Router {
 public:
  // Accepts what comes to `listener`, which outlives it. From `most_connections` on newcomers are turned away
  // until others have gone; whoever has not introduced himself within three seconds goes.
  Router(zmq::context_t& context, Listener& listener, int most_connections);
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  zmq::socket_ref socket() { return socket_; }
  // The next message, if one is there.
  bool receive(Received& message);

  // Queue a packet for the other side of a connection; never wait. False when the connection is gone.
  bool send(const std::string& connection, std::span<const std::byte> header);
  bool send(const std::string& connection, const OutgoingChunk& chunk);

  // Readable when connections have come or gone; then, and now and then, serve_connections().
  zmq::socket_ref monitor() { return monitor_.socket(); }
  void serve_connections();

  // Gives what is queued up to `linger` to leave.
  void close(std::chrono::milliseconds linger = std::chrono::milliseconds(0));

 private:
  bool begin(const std::string& connection);

  Listener& listener_;
  const int most_connections_;
  int connections_ = 0;
  bool is_full_ = false;
  zmq::socket_t socket_;
  Monitor monitor_;
};

}  // namespace rookery
