#include "node/sockets/router.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "models/base/error.hpp"
#include "node/wire/packets.hpp"

namespace rookery {
namespace {

constexpr int kMaxQueued = 8;  // chunks per connection: memory that no plan counts
constexpr int kHandshakeMs = 3000;
constexpr int kConnectionEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED;
constexpr int kEnforceDomain =
    93;  // ZMQ_ZAP_ENFORCE_DOMAIN, which only the header of drafts names: fails closed

std::string property(zmq::message_t& frame, const char* name) {
  try {
    return frame.gets(name);
  } catch (const zmq::error_t&) {
    return "";
  }
}

}  // namespace

Router::Router(zmq::context_t& context, Listener& listener, int most_connections)
    : listener_(listener),
      most_connections_(most_connections),
      socket_(context, zmq::socket_type::router),
      monitor_(context, socket_, kConnectionEvents) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::rcvhwm, kMaxQueued);
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

void Router::close() {
  if (!socket_) return;
  monitor_.close(socket_);
  socket_.close();
}

bool Router::receive(Received& message) {
  zmq::message_t frame;
  if (!socket_.recv(frame, zmq::recv_flags::dontwait)) return false;
  message.connection = frame.to_string();
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
  message.from = property(message.header, "Peer-Address");
  message.user = property(message.header, "User-Id");
  return true;
}

}  // namespace rookery
