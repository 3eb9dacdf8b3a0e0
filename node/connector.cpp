#include "node/connector.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstring>

namespace rookery {
namespace {

constexpr int kEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED;
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

// Different every time: ZeroMQ frees the name of a closed monitor later, in its own thread.
std::string new_monitor_endpoint() {
  static std::atomic<std::uint64_t> count{0};
  return fmt::format("inproc://rookery-monitor-{}", count++);
}

}  // namespace

Connector::Connector(zmq::context_t& context, std::string endpoint)
    : context_(&context), endpoint_(std::move(endpoint)) {}

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
  const std::string monitor_endpoint = new_monitor_endpoint();
  if (::zmq_socket_monitor(socket_.handle(), monitor_endpoint.c_str(), kEvents) != 0) throw zmq::error_t();
  monitor_ = zmq::socket_t(*context_, zmq::socket_type::pair);
  monitor_.set(zmq::sockopt::linger, 0);
  monitor_.connect(monitor_endpoint);
  socket_.connect(endpoint_);
}

void Connector::close(std::chrono::milliseconds linger) {
  connected_ = false;
  if (!socket_) return;
  ::zmq_socket_monitor(socket_.handle(), nullptr, 0);
  monitor_.close();
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

bool Connector::lost_connection() {
  bool lost = false;
  zmq::message_t event;
  zmq::message_t address;
  while (monitor_ && monitor_.recv(event, zmq::recv_flags::dontwait)) {
    static_cast<void>(monitor_.recv(address, zmq::recv_flags::dontwait));
    std::uint16_t id = 0;
    if (event.size() >= sizeof id) std::memcpy(&id, event.data(), sizeof id);
    if (id == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) connected_ = true;
    if (id == ZMQ_EVENT_DISCONNECTED && connected_) lost = true;
  }
  return lost;
}

}  // namespace rookery
