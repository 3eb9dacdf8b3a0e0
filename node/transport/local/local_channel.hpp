// What one node sends to another on the same machine: chunks, and acknowledgements of the other's, over a
// pair of Unix sockets instead of a connection of ZeroMQ, whose threads every message has to wake as well. Of
// larger chunks nothing but the header: their receiver reads the bytes from the sender's memory
// (peer_memory.hpp).
//
// The sender makes the pair, and tells in its hello which of its descriptors is the receiver's end; the
// receiver takes a copy of that out of the sender's process, by pidfd_getfd(2), which the kernel allows to
// whom it lets read its memory. So there is no name that somebody else could take, and each knows who the
// other is. The format of a packet: PROTOCOL.md. One thread at a time uses an object of these classes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "node/transport/local/descriptor.hpp"
#include "node/transport/local/peer_memory.hpp"
#include "node/wire/packets.hpp"
#include "node/wire/stream.hpp"

namespace rookery {

// Chunks of fewer bytes travel in their packet, which is as quick.
constexpr std::size_t kLeastRead = 16U << 10;

// Whether `chunk` lies behind these chunks of a message, and all can be read at once.
bool goes_on_with(std::span<const OutgoingChunk* const> row, const OutgoingChunk& chunk);

class LocalSender {
 public:
  // Makes a new pair; what went into the one before and was not received counts as lost. Nothing can be sent
  // before admit().
  void begin_session();
  // For the hello; none where there is no session.
  MemoryOffer offer() const;
  // The receiver has the pair's other end, and this half of the mark (`OwnMemory::admit`).
  void admit(std::uint64_t reader);
  // Nothing is sent from here on, until another session.
  void end_session();
  // Nor counts what is read from the memory of this process.
  void withdraw() { memory_.withdraw(); }

  // Send a packet; never wait. False where nothing can be sent, or only when the receiver has taken more of
  // what was sent. Chunks of a row lie one behind the other (goes_on_with()); they stay where they are until
  // they are acknowledged.
  bool send(std::span<const std::byte> header) { return send(header, {}); }
  bool send(std::span<const OutgoingChunk* const> row);

 private:
  bool send(std::span<const std::byte> header, std::span<const std::byte> payload);

  OwnMemory memory_;
  Descriptor own_, receivers_;
  bool is_admitted_ = false;
};

class LocalReceiver {
 public:
  // Nothing where this process can have neither the pair's end nor the memory.
  static std::optional<LocalReceiver> open(const MemoryOffer& offer);

  const PeerMemory& memory() const { return memory_; }
  // Readable when a packet is there, or the sender's end was closed.
  int descriptor() const { return socket_.number(); }

  struct LocalPacket {  // as it lies in the receiver's buffer until the next call
    std::span<const std::byte> header;
    std::span<const std::byte> payload;
  };
  // The next packet, if one is there. TransportError, and the packet is dropped, where it is none of ours.
  std::optional<LocalPacket> receive();
  // The sender has closed its end, and all that it has sent was received.
  bool is_closed() const { return is_closed_; }

 private:
  LocalReceiver(const PeerMemory& memory, Descriptor socket);

  PeerMemory memory_;
  Descriptor socket_;
  bool is_closed_ = false;
  std::vector<std::byte> buffer_;
};

}  // namespace rookery
