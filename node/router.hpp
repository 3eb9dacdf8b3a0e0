// The socket on which a node receives everything: a ROUTER bound at its own address. Frames are
// bounded before ZeroMQ takes memory for them. Private to `IoLoop`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <zmq.hpp>

#include "node/address.hpp"

namespace rookery {

// One message as it came; nothing in it is trusted.
struct Received {
  std::string connection;  // given by the ROUTER, different for every connection
  std::string from;        // IP address of the other side, for people
  zmq::message_t header;
  zmq::message_t payload;
  int frames = 0;  // after the connection's id; more than 2 are not kept
};

class Router {
 public:
  // TransportError naming `who` listens, the address and, when the port is taken, the process that holds it;
  // `other_port` says how people give it another one.
  Router(zmq::context_t& context, const std::string& who, const Address& address,
         const std::string& other_port);

  // Where it listens: the port that was given to port 0.
  const Address& address() const { return address_; }
  zmq::socket_ref socket() { return socket_; }
  // The next message, if one is there.
  bool receive(Received& message);
  void close() { socket_.close(); }

 private:
  zmq::socket_t socket_;
  Address address_;
};

}  // namespace rookery
