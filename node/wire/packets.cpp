#include "node/wire/packets.hpp"

#include <array>
#include <limits>
#include <optional>

#include "models/base/check.hpp"
#include "models/base/libraries/format.hpp"
#include "node/wire/wire_archive.hpp"

namespace rookery {
namespace {

constexpr std::array<char, 4> kMagic = {'R', 'O', 'O', 'K'};
constexpr std::size_t kMaxName = 1024;

enum class Type : std::uint8_t {
  kCtlHello = 1,
  kCtlWelcome = 2,
  kCtlHeartbeat = 3,
  kCtlAck = 4,
  kCtlAckRequest = 5,
  kCtlStatus = 6,
  kCtlStop = 7,
  kCtlBye = 8,
  kCtlJoin = 9,
  kCtlReopen = 10,
  kCtlFigures = 11,
  kFirstData = 16,  // a DataChunk: this and the number of its MessageKind
};

// By MessageKind.
constexpr std::array<const char*, kMessageKinds> kDataNames = {
    "FwdActivation",   "BwdGradient",   "BwdParameterGradient",
    "FwdParameter",    "Squares",       "FwdActivationAgain",
    "BwdLearningRate", "Agreement",     "Checkpoint",
    "Average",         "ClusterNumbers"};
static_assert(kDataNames.back() != nullptr, "a kind of message has no name");

Type type_of(const Packet& packet) {
  if (const auto* chunk = std::get_if<DataChunk>(&packet)) {
    return static_cast<Type>(static_cast<int>(Type::kFirstData) + static_cast<int>(chunk->key.kind));
  }
  return static_cast<Type>(packet.index() + 1);  // Packet lists the others in the order of Type
}

std::optional<MessageKind> kind_of(Type type) {
  const int number = static_cast<int>(type) - static_cast<int>(Type::kFirstData);
  if (number < 0 || number >= kMessageKinds) return std::nullopt;
  return static_cast<MessageKind>(number);
}

// Reads and writes an enum as its number, refusing numbers it does not have.
template <typename Archive, typename Enum>
void enumeration(Archive& archive, Enum& value, int count) {
  auto number = static_cast<std::uint8_t>(value);
  archive(number);
  if (number >= count)
    throw TransportError(fmt::format("the header has {} where 0 to {} may be", number, count - 1));
  value = static_cast<Enum>(number);
}

template <typename Archive>
void shape(Archive& archive, Shape& value) {
  std::vector<std::int64_t> dims(value.dims().begin(), value.dims().end());
  archive(dims);
  if (dims.size() > static_cast<std::size_t>(kMaxRank)) {
    throw TransportError(fmt::format("the header has a tensor of {} dimensions", dims.size()));
  }
  for (const std::int64_t dim : dims) {
    if (dim < 0) throw TransportError(fmt::format("the header has a dimension of {}", dim));
  }
  value = Shape(dims);
}

// One function per packet reads and writes it: `fields(archive, packet)`.
template <typename Archive>
void fields(Archive& archive, StreamPosition& position) {
  archive(position.received, position.credit);
}

template <typename Archive>
void fields(Archive& archive, GroupPosition& of) {
  archive(of.group);
  fields(archive, of.position);
}

template <typename Archive>
void fields(Archive& archive, GroupState& state) {
  archive(state.group);
  fields(archive, state.position);
  archive(state.progress, state.waiting_for);
}

// What is told of each group.
template <typename Archive, typename Item>
void list(Archive& archive, std::vector<Item>& items) {
  cereal::size_type count = items.size();
  archive(cereal::make_size_tag(count));
  if (count > kMostGroups)
    throw TransportError(fmt::format("the header tells of {} groups; the limit is {}", count, kMostGroups));
  items.resize(count);
  for (Item& item : items) fields(archive, item);
}

template <typename Archive>
void fields(Archive& archive, CtlHello& hello) {
  archive(hello.nonce, hello.node);
  enumeration(archive, hello.channel, kMostChannels);
  archive(hello.connection, hello.memory.machine, hello.memory.process, hello.memory.mark_at,
          hello.memory.mark, hello.memory.socket, hello.memory.socket_inode);
}

template <typename Archive>
void fields(Archive& archive, CtlWelcome& welcome) {
  archive(welcome.nonce);
  enumeration(archive, welcome.channel, kMostChannels);
  archive(welcome.connection);
  list(archive, welcome.positions);
  archive(welcome.reader);
}

template <typename Archive>
void fields(Archive& archive, CtlHeartbeat& heartbeat) {
  list(archive, heartbeat.groups);
}

template <typename Archive>
void fields(Archive& archive, CtlAck& ack) {
  archive(ack.group);
  fields(archive, ack.position);
}

template <typename Archive>
void fields(Archive& archive, CtlAckRequest& request) {
  archive(request.group);
}

template <typename Archive>
void fields(Archive& archive, CtlStatus& status) {
  archive(status.group, status.epoch, status.step, status.loss, status.accuracy);
}

template <typename Archive>
void fields(Archive& archive, CtlStop& stop) {
  archive(stop.group, stop.origin, stop.reason, stop.signal);
}

template <typename Archive>
void fields(Archive& archive, CtlBye& bye) {
  archive(bye.group, bye.confirms);
}

template <typename Archive>
void fields(Archive& archive, CtlJoin& join) {
  archive(join.group, join.rank, join.ranks, join.knows);
  fields(archive, join.position);
}

template <typename Archive>
void fields(Archive& archive, CtlReopen& reopen) {
  enumeration(archive, reopen.channel, kMostChannels);
}

template <typename Archive>
void fields(Archive& archive, CtlFigures& packet) {
  NodeFigures& figures = packet.figures;
  archive(packet.group, figures.seconds, figures.computing, figures.waiting, figures.resident,
          figures.micro_batches, figures.staleness, figures.rounds, figures.exposed, figures.round_bytes,
          figures.sent);
}

template <typename Archive>
void fields(Archive& archive, MemoryRange& memory) {
  archive(memory.address, memory.bytes);
}

// The range comes last, where encode_in_memory() puts it.
template <typename Archive>
void fields(Archive& archive, DataChunk& chunk) {
  archive(chunk.group, chunk.sequence, chunk.key.validation, chunk.key.step, chunk.key.micro_batch,
          chunk.key.edge);
  enumeration(archive, chunk.type.dtype, kDTypes);
  shape(archive, chunk.type.shape);
  archive(chunk.total, chunk.offset);
  fields(archive, chunk.memory);
}

Packet empty_packet(Type type) {
  if (const std::optional<MessageKind> kind = kind_of(type)) {
    DataChunk chunk;
    chunk.key.kind = *kind;
    return chunk;
  }
  switch (type) {
    case Type::kCtlHello:
      return CtlHello{};
    case Type::kCtlWelcome:
      return CtlWelcome{};
    case Type::kCtlHeartbeat:
      return CtlHeartbeat{};
    case Type::kCtlAck:
      return CtlAck{};
    case Type::kCtlAckRequest:
      return CtlAckRequest{};
    case Type::kCtlStatus:
      return CtlStatus{};
    case Type::kCtlStop:
      return CtlStop{};
    case Type::kCtlBye:
      return CtlBye{};
    case Type::kCtlJoin:
      return CtlJoin{};
    case Type::kCtlReopen:
      return CtlReopen{};
    case Type::kCtlFigures:
      return CtlFigures{};
    case Type::kFirstData:
      break;
  }
  throw TransportError(
      fmt::format("the header has packet type {}, which is unknown", static_cast<int>(type)));
}

// The tensor's bytes, counted without overflow.
std::uint64_t tensor_bytes(const TensorType& type) {
  std::uint64_t bytes = bytes_of(type.dtype);
  for (const std::int64_t dim : type.shape.dims()) {
    if (dim != 0 && bytes > std::numeric_limits<std::int64_t>::max() / static_cast<std::uint64_t>(dim)) {
      throw TransportError("the header has a tensor too large for any machine");
    }
    bytes *= static_cast<std::uint64_t>(dim);
  }
  return bytes;
}

// A stop's reason may hold a whole chain of contexts; the header must not grow with it.
void trim(Packet& packet) {
  if (auto* stop = std::get_if<CtlStop>(&packet); stop != nullptr && stop->reason.size() > kMaxName) {
    stop->reason = stop->reason.substr(0, kMaxName) + "…";
  }
}

}  // namespace

std::vector<std::byte> encode(const Packet& packet) {
  std::vector<std::byte> header;
  header.reserve(128);
  WireOutput archive(header);
  archive.write(kMagic.data(), kMagic.size());
  archive(kProtocolVersion, static_cast<std::uint8_t>(type_of(packet)));
  Packet copy = packet;
  trim(copy);
  std::visit([&](auto& of_type) { fields(archive, of_type); }, copy);
  ROOKERY_CHECK(header.size() <= kMaxHeaderBytes, "a {} header of {} bytes", name_of(packet), header.size());
  return header;
}

std::vector<std::byte> encode_in_memory(std::span<const std::byte> chunk_header, const MemoryRange& memory) {
  constexpr std::size_t kRangeBytes = 2 * sizeof(std::uint64_t);
  ROOKERY_CHECK(chunk_header.size() > kRangeBytes, "a chunk's header of {} bytes", chunk_header.size());
  std::vector<std::byte> header(chunk_header.begin(), chunk_header.end() - kRangeBytes);
  WireOutput archive(header);
  MemoryRange range = memory;
  fields(archive, range);
  return header;
}

Packet decode(std::span<const std::byte> header) {
  if (header.size() > kMaxHeaderBytes) {
    throw TransportError(fmt::format("a {}-byte header; the limit is {}", header.size(), kMaxHeaderBytes));
  }
  WireInput archive(header);
  std::array<char, 4> magic{};
  archive.read(magic.data(), magic.size());
  if (magic != kMagic) throw TransportError("not a packet of Rookery");
  std::uint16_t version = 0;
  std::uint8_t type = 0;
  archive(version);
  if (version != kProtocolVersion) {
    throw TransportError(
        fmt::format("protocol version {}, this program speaks {}: use the same Rookery everywhere", version,
                    kProtocolVersion));
  }
  archive(type);
  Packet packet = empty_packet(static_cast<Type>(type));
  std::visit([&](auto& of_type) { fields(archive, of_type); }, packet);
  if (archive.left() != 0)
    throw TransportError(fmt::format("{} bytes after the end of the header", archive.left()));
  if (const auto* chunk = std::get_if<DataChunk>(&packet)) {
    const std::uint64_t bytes = tensor_bytes(chunk->type);
    if (chunk->total != bytes || chunk->offset > bytes) {
      throw TransportError(fmt::format("{} of {} bytes at offset {} does not add up", chunk->type.to_string(),
                                       chunk->total, chunk->offset));
    }
    if (chunk->memory.bytes > kMostBytesRead)
      throw TransportError(
          fmt::format("{} bytes to be read at once; the limit is {}", chunk->memory.bytes, kMostBytesRead));
  }
  return packet;
}

const char* name_of(const Packet& packet) {
  if (const auto* chunk = std::get_if<DataChunk>(&packet)) {
    return kDataNames.at(static_cast<std::size_t>(chunk->key.kind));
  }
  switch (type_of(packet)) {
    case Type::kCtlHello:
      return "CtlHello";
    case Type::kCtlWelcome:
      return "CtlWelcome";
    case Type::kCtlHeartbeat:
      return "CtlHeartbeat";
    case Type::kCtlAck:
      return "CtlAck";
    case Type::kCtlAckRequest:
      return "CtlAckRequest";
    case Type::kCtlStatus:
      return "CtlStatus";
    case Type::kCtlStop:
      return "CtlStop";
    case Type::kCtlBye:
      return "CtlBye";
    case Type::kCtlJoin:
      return "CtlJoin";
    case Type::kCtlReopen:
      return "CtlReopen";
    case Type::kCtlFigures:
      return "CtlFigures";
    case Type::kFirstData:
      break;
  }
  return "unknown";
}

}  // namespace rookery
