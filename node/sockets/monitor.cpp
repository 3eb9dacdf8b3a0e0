#include "node/sockets/monitor.hpp"

#include <atomic>
#include <cstring>

#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

// Different every time: ZeroMQ frees the name of a closed monitor later, in its own thread.
std::string new_endpoint() {
  static std::atomic<std::uint64_t> count{0};
  return fmt::format("inproc://rookery-monitor-{}", count++);
}

}  // namespace

Monitor::Monitor(zmq::context_t& context, zmq::socket_ref socket, int events)
    : socket_(context, zmq::socket_type::pair) {
  const std::string endpoint = new_endpoint();
  if (::zmq_socket_monitor(socket.handle(), endpoint.c_str(), events) != 0) throw zmq::error_t();
  socket_.set(zmq::sockopt::linger, 0);
  socket_.connect(endpoint);
  // Its descriptor tells of nothing before somebody has looked once.
  static_cast<void>(socket_.get(zmq::sockopt::events));
}

std::optional<Monitor::Event> Monitor::next() {
  zmq::message_t frame;
  zmq::message_t address;
  if (!socket_ || !socket_.recv(frame, zmq::recv_flags::dontwait)) return std::nullopt;
  static_cast<void>(socket_.recv(address, zmq::recv_flags::dontwait));
  Event event;
  if (frame.size() >= sizeof event.id + sizeof event.value) {
    const auto* bytes = static_cast<const std::byte*>(frame.data());
    std::memcpy(&event.id, bytes, sizeof event.id);
    std::memcpy(&event.value, bytes + sizeof event.id, sizeof event.value);
  }
  return event;
}

void Monitor::close(zmq::socket_ref monitored) {
  if (!socket_) return;
  ::zmq_socket_monitor(monitored.handle(), nullptr, 0);
  socket_.close();
}

}  // namespace rookery
