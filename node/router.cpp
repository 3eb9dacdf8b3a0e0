#include "node/router.hpp"

#include <fmt/format.h>

#include <cerrno>

#include "models/base/error.hpp"
#include "node/packets.hpp"

namespace rookery {
namespace {

constexpr int kMaxQueued = 8;   // chunks per connection: memory that no plan counts
constexpr int kMaxUnsent = 32;  // answers of a LinkBenchmarkServer; IoLoop sends nothing here
constexpr int kBacklog = 1024;
constexpr int kHandshakeMs = 3000;

[[noreturn]] void fail_to_bind(const std::string& who, const Address& address, const std::string& other_port,
                               int error) {
  std::string reason = ::zmq_strerror(error);
  if (error == EADDRINUSE) {
    const auto owner = port_owner(address.port);
    reason = fmt::format("port {} is in use{}: end that program, or {}", address.port,
                         owner ? " by " + *owner : "", other_port);
  } else if (error == EADDRNOTAVAIL || error == ENODEV) {
    reason =
        fmt::format("this machine has no address {}: start {} on the machine that has it", address.host, who);
  } else if (error == EACCES) {
    reason = fmt::format("port {} needs more rights: use a port above 1023", address.port);
  }
  throw TransportError(fmt::format("{} cannot listen at {}: {}", who, address.to_string(), reason));
}

}  // namespace

Router::Router(zmq::context_t& context, const std::string& who, const Address& address,
               const std::string& other_port)
    : socket_(context, zmq::socket_type::router), address_(address) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::rcvhwm, kMaxQueued);
  socket_.set(zmq::sockopt::sndhwm, kMaxUnsent);
  socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(kMaxChunkBytes));
  socket_.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
  socket_.set(zmq::sockopt::backlog, kBacklog);
  try {
    socket_.bind("tcp://" + address.to_string());
  } catch (const zmq::error_t& error) {
    fail_to_bind(who, address, other_port, error.num());
  }
  const auto bound = socket_.get(zmq::sockopt::last_endpoint);  // "tcp://0.0.0.0:8080"
  address_.port = Address::parse(bound.substr(bound.find("//") + 2)).port;
}

bool Router::receive(Received& message) {
  zmq::message_t frame;
  if (!socket_.recv(frame, zmq::recv_flags::dontwait)) return false;
  message.connection = frame.to_string();
  message.from.clear();
  message.header.rebuild();
  message.payload.rebuild();
  message.frames = 0;
  bool more = frame.more();
  while (more) {
    zmq::message_t part;
    if (!socket_.recv(part, zmq::recv_flags::dontwait)) break;
    more = part.more();
    if (message.frames == 0) {
      message.header = std::move(part);
    } else if (message.frames == 1) {
      message.payload = std::move(part);
    }
    ++message.frames;
  }
  return true;
}

}  // namespace rookery
