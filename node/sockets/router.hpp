// The socket on which a node receives everything: a ROUTER that lets in whom `Admission` lets in. Frames are
// bounded before ZeroMQ takes memory for them, and so is the number of connections. Private to `IoLoop`.
#pragma once

#include <string>
#include <zmq.hpp>

#include "node/sockets/listener.hpp"
#include "node/sockets/monitor.hpp"

namespace rookery {

// One message as it came; nothing in it is trusted but `user`.
struct Received {
  std::string connection;  // given by the ROUTER, different for every connection
  std::string from;        // IP address of the other side, for people
  std::string user;        // whom the connection was admitted as
  zmq::message_t header;
  zmq::message_t payload;
  int frames = 0;  // after the connection's id; more than 2 are not kept
};

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

  // Readable when connections have come or gone; then, and now and then, serve_connections().
  zmq::socket_ref monitor() { return monitor_.socket(); }
  void serve_connections();

  void close();

 private:
  Listener& listener_;
  const int most_connections_;
  int connections_ = 0;
  bool is_full_ = false;
  zmq::socket_t socket_;
  Monitor monitor_;
};

}  // namespace rookery
