// Admission decides who may talk to this node. ZeroMQ asks before a connection may deliver its first message
// (ZAP, RFC 27; mechanism PLAIN, RFC 24), and closes those that are refused. So whoever does not hold the
// plan's token costs a connection for the time of a handshake, and nothing more. The token travels openly: it
// keeps strangers out, not those who read the network. Private to `IoLoop`.
#pragma once

#include <functional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "node/sockets/plan_key.hpp"

namespace rookery {

class Admission {
 public:
  // Before the sockets of the same context that ask it are bound. `nodes` are those that may connect.
  Admission(zmq::context_t& context, PlanKey key, std::vector<std::string> nodes);

  zmq::socket_ref socket() { return socket_; }
  // Answers whatever is asked. `refused` is told which of the nodes the connection says it is (an index; -1:
  // none of them), from which IP address it comes, and why it was refused, fit for a terminal.
  void serve(
      const std::function<void(int node, const std::string& from, const std::string& reason)>& refused);
  void close() { socket_.close(); }

 private:
  // Empty when it may come in.
  std::string reason_against(const Credentials& given) const;
  int node_of(const std::string& user) const;

  PlanKey key_;
  std::vector<std::string> nodes_;
  zmq::socket_t socket_;
};

}  // namespace rookery
