#include "node/sockets/connector.hpp"

#include <algorithm>
#include <utility>

namespace rookery {
namespace {

constexpr int kHandshakeEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_DISCONNECTED;
constexpr int kFirstRetryMs = 20;
constexpr int kMaxRetryMs = 1000;
constexpr int kTimeoutMs = 3000;
constexpr int kConnectorQueue = 8;  // chunks that wait to be taken: memory that no plan counts

}  // namespace

Connector::Connector(zmq::context_t& context, Address peer, Credentials credentials)
    : context_(&context),
      peer_(std::move(peer)),
      is_ipv6_(peer_.is_ipv6()),
      credentials_(std::move(credentials)) {}

Connector::~Connector() {
  close();
}

void Connector::open() {
  close();
  ++number_;
  try {
    connect();
  } catch (...) {
    close();
    throw;
  }
}

void Connector::connect() {
  socket_ = zmq::socket_t(*context_, zmq::socket_type::dealer);
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::sndhwm, 0);  // bounded in bytes by credit and budgets, not in messages
  socket_.set(zmq::sockopt::sndtimeo, 0);
  socket_.set(zmq::sockopt::rcvhwm, kConnectorQueue);
  socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(kMaxChunkBytes));
  socket_.set(zmq::sockopt::ipv6, is_ipv6_);
  socket_.set(zmq::sockopt::reconnect_ivl, kFirstRetryMs);
  socket_.set(zmq::sockopt::reconnect_ivl_max, kMaxRetryMs);
  socket_.set(zmq::sockopt::connect_timeout, kTimeoutMs);
  socket_.set(zmq::sockopt::handshake_ivl, kTimeoutMs);
  socket_.set(zmq::sockopt::plain_username, credentials_.user);
  socket_.set(zmq::sockopt::plain_password, credentials_.password);
  monitor_ = Monitor(*context_, socket_, kHandshakeEvents);
  socket_.connect("tcp://" + peer_.to_string());
}

void Connector::close(std::chrono::milliseconds linger) {
  connected_ = false;
  if (!socket_) return;
  monitor_.close(socket_);
  socket_.set(zmq::sockopt::linger, static_cast<int>(linger.count()));
  socket_.close();
}

void Connector::send(std::span<const std::byte> header) {
  if (socket_) send_frames(socket_, header);
}

void Connector::send(const OutgoingChunk& chunk) {
  if (socket_) send_frames(socket_, chunk);
}

bool Connector::receive(Received& message) {
  zmq::message_t first;
  if (!socket_ || !socket_.recv(first, zmq::recv_flags::dontwait)) return false;
  receive_frames(socket_, std::move(first), message);
  return true;
}

Connector::News Connector::news() {
  News worst = News::kNone;
  while (const auto event = monitor_.next()) {
    News news = News::kNone;
    if (event->id == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) connected_ = true;
    if (event->id == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) news = News::kRefused;
    if (event->id == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) news = News::kForeign;
    if (event->id == ZMQ_EVENT_DISCONNECTED && connected_) news = News::kClosed;
    worst = std::max(worst, news);
  }
  return worst;
}

}  // namespace rookery
