#include "node/sockets/router.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "node/sockets/frames.hpp"
#include "node/wire/packets.hpp"

namespace rookery {
namespace {

constexpr int kMaxQueued = 8;  // chunks per connection: memory that no plan counts
constexpr int kHandshakeMs = 3000;
constexpr int kConnectionEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED;
constexpr int kEnforceDomain =
    93;  // ZMQ_ZAP_ENFORCE_DOMAIN, which only the header of drafts names: fails closed

}  // namespace

Router::Router(zmq::context_t& context, Listener& listener, int most_connections)
    : listener_(listener),
      most_connections_(most_connections),
      socket_(context, zmq::socket_type::router),
      monitor_(context, socket_, kConnectionEvents) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::rcvhwm, kMaxQueued);
  socket_.set(zmq::sockopt::sndhwm, 0);  // bounded in bytes by credit and budgets, not in messages
  socket_.set(zmq::sockopt::sndtimeo, 0);
  socket_.set(zmq::sockopt::router_mandatory,
              true);  // what goes to a connection that is gone is not dropped silently
  socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(kMaxChunkBytes));
  socket_.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
  socket_.set(zmq::sockopt::plain_server, true);
  socket_.set(zmq::sockopt::zap_domain, "rookery");
  const int on = 1;
  if (::zmq_setsockopt(socket_.handle(), kEnforceDomain, &on, sizeof on) != 0) throw zmq::error_t();
  // ZeroMQ takes a descriptor of its own of the listening socket, and closes it.
  const int descriptor = ::fcntl(listener.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0)
    throw TransportError(fmt::format("no descriptor to listen with: {}", std::strerror(errno)));
  socket_.set(zmq::sockopt::use_fd, descriptor);
  socket_.set(zmq::sockopt::ipv6, listener.address().is_ipv6());
  socket_.bind("tcp://" + listener.address().to_string());
}

Router::~Router() {
  close();
}

void Router::serve_connections() {
  while (const auto event = monitor_.next()) connections_ += event->id == ZMQ_EVENT_ACCEPTED ? 1 : -1;
  const bool is_full = connections_ >= most_connections_;
  if (std::exchange(is_full_, is_full) != is_full) listener_.turn_away(is_full);
}

void Router::close(std::chrono::milliseconds linger) {
  if (!socket_) return;
  monitor_.close(socket_);
  socket_.set(zmq::sockopt::linger, static_cast<int>(linger.count()));
  socket_.close();
}

bool Router::receive(Received& message) {
  zmq::message_t id;
  if (!socket_.recv(id, zmq::recv_flags::dontwait)) return false;
  message.connection = id.to_string();
  zmq::message_t first;
  const bool has_frames = id.more() && socket_.recv(first, zmq::recv_flags::dontwait);
  receive_frames(socket_, std::move(first), message);
  if (!has_frames) message.frames = 0;
  return true;
}

bool Router::begin(const std::string& connection) {
  try {
    const auto flags = zmq::send_flags::dontwait | zmq::send_flags::sndmore;
    return socket_.send(zmq::buffer(connection), flags).has_value();
  } catch (const zmq::error_t& error) {
    if (error.num() != EHOSTUNREACH) throw;
    return false;
  }
}

bool Router::send(const std::string& connection, std::span<const std::byte> header) {
  return begin(connection) && send_frames(socket_, header);
}

bool Router::send(const std::string& connection, const OutgoingChunk& chunk) {
  return begin(connection) && send_frames(socket_, chunk);
}

}  // namespace rookery
