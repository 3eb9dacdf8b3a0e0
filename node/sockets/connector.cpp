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

void release_bytes(void*, void* hint) {
  delete static_cast<SharedBytes*>(hint);
}

// A frame that shares the chunk's memory until ZeroMQ has sent it.
zmq::message_t payload_frame(const OutgoingChunk& chunk) {
  if (chunk.payload.empty()) return zmq::message_t();
  auto* data = const_cast<std::byte*>(chunk.payload.data());
  return {data, chunk.payload.size(), release_bytes, new SharedBytes(chunk.bytes)};
}

}  // namespace

Connector::Connector(zmq::context_t& context, std::string endpoint, Credentials credentials)
    : context_(&context), endpoint_(std::move(endpoint)), credentials_(std::move(credentials)) {}

Connector::~Connector() {
  close();
}

void Connector::open() {
  close();
  ++number_;
  socket_ = zmq::socket_t(*context_, zmq::socket_type::dealer);
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::sndhwm, 0);  // bounded in bytes by credit and budgets, not in messages
  socket_.set(zmq::sockopt::sndtimeo, 0);
  socket_.set(zmq::sockopt::rcvhwm, 1);  // nothing is ever received here
  socket_.set(zmq::sockopt::maxmsgsize, std::int64_t{1024});
  socket_.set(zmq::sockopt::reconnect_ivl, kFirstRetryMs);
  socket_.set(zmq::sockopt::reconnect_ivl_max, kMaxRetryMs);
  socket_.set(zmq::sockopt::connect_timeout, kTimeoutMs);
  socket_.set(zmq::sockopt::handshake_ivl, kTimeoutMs);
  socket_.set(zmq::sockopt::plain_username, credentials_.user);
  socket_.set(zmq::sockopt::plain_password, credentials_.password);
  monitor_ = Monitor(*context_, socket_, kHandshakeEvents);
  socket_.connect(endpoint_);
}

void Connector::close(std::chrono::milliseconds linger) {
  connected_ = false;
  if (!socket_) return;
  monitor_.close(socket_);
  socket_.set(zmq::sockopt::linger, static_cast<int>(linger.count()));
  socket_.close();
}

void Connector::send(std::span<const std::byte> header) {
  if (!socket_) return;
  zmq::message_t frame(header.data(), header.size());
  static_cast<void>(socket_.send(frame, zmq::send_flags::dontwait));
}

void Connector::send(const OutgoingChunk& chunk) {
  if (!socket_) return;
  zmq::message_t header(chunk.header.data(), chunk.header.size());
  zmq::message_t payload = payload_frame(chunk);
  if (!socket_.send(header, zmq::send_flags::dontwait | zmq::send_flags::sndmore)) return;
  static_cast<void>(socket_.send(payload, zmq::send_flags::dontwait));
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
