#include "node/transport/local/local_channel.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

using HeaderSize = std::uint16_t;  // before the header, of a packet
constexpr std::size_t kMostOfAPacket = sizeof(HeaderSize) + kMaxHeaderBytes + kLeastRead;

// By which a socket is known, whatever number its descriptor has: 0 where this is none.
std::uint64_t inode_of(const Descriptor& socket) {
  struct stat found {};
  const bool is_socket = ::fstat(socket.number(), &found) == 0 && S_ISSOCK(found.st_mode);
  return is_socket ? found.st_ino : 0;
}

// Of a pair that the process has made, as begin_session() does: so that no member of a plan can have another
// take a socket that is neither's.
bool is_half_of_a_pair_of(int process, const Descriptor& socket) {
  const auto option = [&](int name, auto& value) {
    socklen_t size = sizeof value;
    return ::getsockopt(socket.number(), SOL_SOCKET, name, &value, &size) == 0;
  };
  int domain = 0;
  int type = 0;
  ucred peer{};
  return option(SO_DOMAIN, domain) && domain == AF_UNIX && option(SO_TYPE, type) && type == SOCK_SEQPACKET &&
         option(SO_PEERCRED, peer) && peer.pid == process;
}

// By their numbers, since the header of glibc 2.36 has the two for C alone.
Descriptor open_process(int process) {
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
}

Descriptor copy_of(const Descriptor& process, int number) {
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_getfd, process.number(), number, 0)));
}

iovec piece_of(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

bool goes_on_with(std::span<const OutgoingChunk* const> row, const OutgoingChunk& chunk) {
  const OutgoingChunk& first = *row.front();
  const OutgoingChunk& last = *row.back();
  const std::byte* const end = last.payload.data() + last.payload.size();
  return first.bytes == chunk.bytes && last.payload.size() == kMaxChunkBytes && chunk.payload.data() == end &&
         static_cast<std::size_t>(end - first.payload.data()) + chunk.payload.size() <= kMostBytesRead;
}

void LocalSender::begin_session() {
  end_session();
  std::array<int, 2> pair{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) return;
  own_ = Descriptor(pair[0]);
  receivers_ = Descriptor(pair[1]);
}

void LocalSender::end_session() {
  is_admitted_ = false;
  own_.reset();
  receivers_.reset();
}

MemoryOffer LocalSender::offer() const {
  if (!receivers_) return {};
  MemoryOffer offer = memory_.offer();
  offer.socket = receivers_.number();
  offer.socket_inode = inode_of(receivers_);
  return offer;
}

void LocalSender::admit(std::uint64_t reader) {
  memory_.admit(reader);
  receivers_.reset();  // so that sending fails when the receiver has gone
  is_admitted_ = true;
}

bool LocalSender::send(std::span<const OutgoingChunk* const> row) {
  const OutgoingChunk& first = *row.front();
  if (first.payload.size() < kLeastRead) return send(first.header, first.payload);
  const std::byte* const begin = first.payload.data();
  const std::byte* const end = row.back()->payload.data() + row.back()->payload.size();
  return send(encode_in_memory(first.header, {reinterpret_cast<std::uintptr_t>(begin),
                                              static_cast<std::uint64_t>(end - begin)}),
              {});
}

bool LocalSender::send(std::span<const std::byte> header, std::span<const std::byte> payload) {
  if (!is_admitted_) return false;
  auto size = static_cast<HeaderSize>(header.size());
  std::array pieces{iovec{&size, sizeof size}, piece_of(header), piece_of(payload)};
  msghdr packet{};
  packet.msg_iov = pieces.data();
  packet.msg_iovlen = pieces.size();
  if (::sendmsg(own_.number(), &packet, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
  if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR) end_session();
  return false;
}

LocalReceiver::LocalReceiver(const PeerMemory& memory, Descriptor socket)
    : memory_(memory), socket_(std::move(socket)), buffer_(kMostOfAPacket) {}

// The process is held by a descriptor before its mark is read, so that the socket is of no other process that
// has got its number since.
std::optional<LocalReceiver> LocalReceiver::open(const MemoryOffer& offer) {
  if (offer.process <= 0 || offer.socket < 0) return std::nullopt;
  const Descriptor process = open_process(offer.process);
  if (!process) return std::nullopt;
  const auto memory = PeerMemory::open(offer);
  if (!memory) return std::nullopt;
  Descriptor socket = copy_of(process, offer.socket);
  if (!socket || inode_of(socket) != offer.socket_inode || !is_half_of_a_pair_of(offer.process, socket))
    return std::nullopt;
  return LocalReceiver(*memory, std::move(socket));
}

std::optional<LocalReceiver::LocalPacket> LocalReceiver::receive() {
  const ssize_t came = ::recv(socket_.number(), buffer_.data(), buffer_.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (came < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (came <= 0) {
    is_closed_ = true;
    return std::nullopt;
  }
  const auto bytes = static_cast<std::size_t>(came);
  HeaderSize header = 0;
  if (bytes > buffer_.size() || bytes < sizeof header)
    throw TransportError(fmt::format("a local packet of {} bytes; the limit is {}", bytes, buffer_.size()));
  std::memcpy(&header, buffer_.data(), sizeof header);
  const auto rest = std::span<const std::byte>(buffer_).first(bytes).subspan(sizeof header);
  if (header > rest.size())
    throw TransportError(fmt::format("a local packet of {} bytes with {} of header", bytes, header));
  return LocalPacket{rest.first(header), rest.subspan(header)};
}

}  // namespace rookery
