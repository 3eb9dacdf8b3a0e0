#include "node/sockets/frames.hpp"

#include <utility>

namespace rookery {
namespace {

std::string property(zmq::message_t& frame, const char* name) {
  try {
    return frame.gets(name);
  } catch (const zmq::error_t&) {
    return "";
  }
}

void release_bytes(void*, void* hint) {
  delete static_cast<SharedBytes*>(hint);
}

zmq::message_t payload_frame(const OutgoingChunk& chunk) {
  if (chunk.payload.empty()) return zmq::message_t();
  auto* data = const_cast<std::byte*>(chunk.payload.data());
  return {data, chunk.payload.size(), release_bytes, new SharedBytes(chunk.bytes)};
}

}  // namespace

void receive_frames(zmq::socket_ref socket, zmq::message_t first, Received& message) {
  bool more = first.more();
  message.header = std::move(first);
  message.payload.rebuild();
  message.frames = 1;
  while (more) {
    zmq::message_t part;
    if (!socket.recv(part, zmq::recv_flags::dontwait)) break;
    more = part.more();
    if (message.frames == 1) message.payload = std::move(part);
    ++message.frames;
  }
  message.from = property(message.header, "Peer-Address");
  message.user = property(message.header, "User-Id");
}

bool send_frames(zmq::socket_ref socket, std::span<const std::byte> header) {
  zmq::message_t frame(header.data(), header.size());
  return socket.send(frame, zmq::send_flags::dontwait).has_value();
}

bool send_frames(zmq::socket_ref socket, const OutgoingChunk& chunk) {
  zmq::message_t header(chunk.header.data(), chunk.header.size());
  zmq::message_t payload = payload_frame(chunk);
  return socket.send(header, zmq::send_flags::dontwait | zmq::send_flags::sndmore) &&
         socket.send(payload, zmq::send_flags::dontwait);
}

}  // namespace rookery
