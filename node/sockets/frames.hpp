// Packets as frames of ZeroMQ, on whichever socket. Private to `IoLoop`.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <zmq.hpp>

#include "node/wire/stream.hpp"

namespace rookery {

// One message as it came; nothing in it is trusted but `user`.
struct Received {
  std::string connection;  // different for every connection of this process
  std::string from;        // IP address of the other side, for people
  std::string user;        // whom the connection was admitted as
  zmq::message_t header;
  zmq::message_t payload;
  int frames = 0;  // more than 2 are not kept
};

// Takes the frames of a message, `first` and those that follow it; without waiting.
void receive_frames(zmq::socket_ref socket, zmq::message_t first, Received& message);

// Queue a packet; never wait. The chunk's memory is shared until ZeroMQ has sent it. False when that cannot
// be.
bool send_frames(zmq::socket_ref socket, std::span<const std::byte> header);
bool send_frames(zmq::socket_ref socket, const OutgoingChunk& chunk);

}  // namespace rookery
