// The packets that nodes exchange: Ctl… between two processes, most of them on control connections, all
// others between members of a group on data connections, Fwd… and Bwd… to the next stage and to the one
// before. Bytes: PROTOCOL.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "models/tensor/tensor.hpp"
#include "trainer/link.hpp"

namespace rookery {

constexpr std::uint16_t kProtocolVersion = 10;
constexpr std::size_t kMaxHeaderBytes = 4096;
constexpr std::size_t kMaxChunkBytes = 256U << 10;
// Chunks that are read from memory together.
constexpr std::size_t kMostBytesRead = 16 * kMaxChunkBytes;

// A group by its number, which the plan gives and which is used once in a process's life.
using GroupId = std::uint32_t;
// Groups that two nodes may be in together: what tells of all of them fits a header.
constexpr std::size_t kMostGroups = 64;

// Control, and from kData on as many for data as two nodes have between them: a plan gives the same number to
// both.
enum class Channel : std::uint8_t { kControl = 0, kData = 1 };
constexpr int kMostDataChannels = 16;
constexpr int kMostChannels = 1 + kMostDataChannels;

// The position that a stream of chunks has come to, told by its receiver.
struct StreamPosition {
  std::uint64_t received = 0;  // chunks that arrived in order: the next one expected
  std::uint64_t credit = 0;    // bytes (chunk_cost) that may be sent in all since the beginning
  bool operator==(const StreamPosition&) const = default;
};

// The place that the stream of a group has reached.
struct GroupPosition {
  GroupId group = 0;
  StreamPosition position;
  bool operator==(const GroupPosition&) const = default;
};

// How a process lets one on the same machine read its memory, and take the end of a pair of sockets
// (node/transport/local).
struct MemoryOffer {
  std::uint64_t machine = 0;  // another on every machine, and in every network namespace; 0: no offer
  std::int32_t process = 0;
  std::uint64_t mark_at = 0;  // address of the mark: u64[2]
  std::uint64_t mark = 0;     // the first of these
  std::int32_t socket = -1;   // the descriptor, in that process, of the end that is the receiver's
  std::uint64_t socket_inode = 0;
  bool operator==(const MemoryOffer&) const = default;
};

// First on every connection, from each side that sends on it: who that is. Repeated until it is welcomed.
struct CtlHello {
  std::uint64_t nonce = 0;  // drawn by each process
  std::string node;
  Channel channel = Channel::kControl;
  std::uint32_t connection = 0;  // counts the connections of this channel to this peer
  MemoryOffer memory;            // on the first data channel
  bool operator==(const CtlHello&) const = default;
};

// Answers the hello with these numbers. The data of each group that both are in flows on from its position.
struct CtlWelcome {
  std::uint64_t nonce = 0;
  Channel channel = Channel::kControl;
  std::uint32_t connection = 0;
  std::vector<GroupPosition> positions;  // kMostGroups at most
  // The other half of the mark in the memory of who said hello, from which its chunks will be read; 0: they
  // are not.
  std::uint64_t reader = 0;
  bool operator==(const CtlWelcome&) const = default;
};

// The state of a group on the sender's side.
struct GroupState {
  GroupId group = 0;
  StreamPosition position;
  std::uint64_t progress = 0;     // calls that the group's thread has made
  std::int32_t waiting_for = -1;  // the rank it waits for; -1: for none
  bool operator==(const GroupState&) const = default;
};

struct CtlHeartbeat {
  std::vector<GroupState> groups;  // in which both are, and which have not ended here; kMostGroups at most
  bool operator==(const CtlHeartbeat&) const = default;
};

struct CtlAck {
  GroupId group = 0;
  StreamPosition position;
  bool operator==(const CtlAck&) const = default;
};

// Asks for a CtlAck at once.
struct CtlAckRequest {
  GroupId group = 0;
  bool operator==(const CtlAckRequest&) const = default;
};

// The numbers that the last stage knows and every provider shows.
struct CtlStatus {
  GroupId group = 0;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  double loss = 0;
  double accuracy = -1;  // percent; negative: no validation yet
  bool operator==(const CtlStatus&) const = default;
};

struct CtlStop {
  GroupId group = 0;   // that ends
  std::string origin;  // the node that stopped or failed
  std::string reason;
  std::int32_t signal = 0;  // 0: none
  bool operator==(const CtlStop&) const = default;
};

// This node's run in the group has ended in good order; all it sent has been acknowledged. Said again until
// it is confirmed, since the connection may be cut at that very moment.
struct CtlBye {
  GroupId group = 0;
  bool confirms = false;  // this node has the receiver's bye
  bool operator==(const CtlBye&) const = default;
};

// The sender takes part in the group, and grants this credit. Repeated to each member whose own has not come.
struct CtlJoin {
  GroupId group = 0;
  std::int32_t rank = 0;   // the sender's
  std::int32_t ranks = 0;  // members in all
  bool knows = false;      // the sender has the receiver's; otherwise it shall be told
  StreamPosition position;
  bool operator==(const CtlJoin&) const = default;
};

// To the one who opened the connection of this channel: it shall be opened anew, nothing arrives on it.
struct CtlReopen {
  Channel channel = Channel::kData;
  bool operator==(const CtlReopen&) const = default;
};

// What a node tells the last stage of itself, which keeps it with the run's curves. Of the run until now.
struct NodeFigures {
  static constexpr std::size_t kMostTold = 256;

  double seconds = 0;
  double computing = 0;        // of these
  double waiting = 0;          // of these, for other stages
  std::uint64_t resident = 0;  // bytes of memory, now
  std::int64_t micro_batches = 0;
  std::int64_t staleness = 0;       // summed over the micro-batches
  std::int64_t rounds = 0;          // of averaging with other clusters
  double exposed = 0;               // of the seconds, waiting for these rounds
  std::uint64_t round_bytes = 0;    // sent in them
  std::vector<std::uint64_t> sent;  // bytes of tensors, by rank; of more than kMostTold the first ones
  bool operator==(const NodeFigures&) const = default;
};
struct CtlFigures {
  GroupId group = 0;
  NodeFigures figures;
  bool operator==(const CtlFigures&) const = default;
};

// Bytes in the memory of the process that tells of them.
struct MemoryRange {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  bool operator==(const MemoryRange&) const = default;
};

// A piece of a tensor. Its bytes are the payload, or there is none and they are to be read from the sender's
// memory, where they may be those of several chunks in a row, of which this is the first and all but the last
// have kMaxChunkBytes.
struct DataChunk {
  GroupId group = 0;
  std::uint64_t sequence = 0;  // of the group's stream, from 0
  MessageKey key;
  TensorType type;
  std::uint64_t total = 0;   // bytes of the tensor
  std::uint64_t offset = 0;  // of this piece
  MemoryRange memory;        // of no bytes: they are the payload
  bool operator==(const DataChunk&) const = default;
};

// Bytes that a chunk counts against budgets and credit: its payload and what surrounds it.
constexpr std::uint64_t chunk_cost(std::size_t payload) {
  return payload + 512;
}

// DataChunk travels under several types, by key.kind: FwdActivation, BwdGradient, …
using Packet = std::variant<CtlHello, CtlWelcome, CtlHeartbeat, CtlAck, CtlAckRequest, CtlStatus, CtlStop,
                            CtlBye, CtlJoin, CtlReopen, CtlFigures, DataChunk>;

// The header frame.
std::vector<std::byte> encode(const Packet& packet);
// That of the same chunk, whose bytes are to be read there.
std::vector<std::byte> encode_in_memory(std::span<const std::byte> chunk_header, const MemoryRange& memory);

// TransportError saying what is wrong: no packet of ours, another version, cut short, bytes left
// over, a value out of range.
Packet decode(std::span<const std::byte> header);

// "CtlHello", …, "FwdActivation", "BwdGradient", …
const char* name_of(const Packet& packet);

}  // namespace rookery
