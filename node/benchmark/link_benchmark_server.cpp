#include "node/benchmark/link_benchmark_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "node/benchmark/link_benchmark.hpp"
#include "node/benchmark/messages.hpp"
#include "node/benchmark/rest.hpp"
#include "node/sockets/listener.hpp"
#include "node/sockets/warning_limiter.hpp"

namespace rookery {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMostConnections = 64;  // further ones wait in the kernel's queue
constexpr std::chrono::seconds kLongest{60};  // of a peer's measurements in a row
constexpr std::chrono::seconds kSilent{5};    // that ends them, and its connection
constexpr milliseconds kCallBack{
    2000};  // that a connection to the caller may take; nobody is served meanwhile

struct Caller {
  Caller(int of, std::string address) : descriptor(of), from(std::move(address)), moved(Clock::now()) {}
  ~Caller() { ::close(descriptor); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  bool answers() const { return reply_left > 0; }

  int descriptor;
  std::string from;         // IP address
  Clock::time_point moved;  // when bytes came or went
  BenchmarkHeader request;
  std::size_t header_read = 0;
  std::size_t payload_left = 0;
  BenchmarkHeader reply;
  std::size_t reply_left = 0;  // header and payload
};

enum class Moved : std::uint8_t { kDone, kBlocked, kClosed };

Moved progress_of(ssize_t moved, Caller& connection) {
  if (moved > 0) {
    connection.moved = Clock::now();
    return Moved::kDone;
  }
  const bool later = moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return later ? Moved::kBlocked : Moved::kClosed;
}

Moved read_header(Caller& connection) {
  auto* bytes = reinterpret_cast<std::byte*>(&connection.request);
  const ssize_t got = ::recv(connection.descriptor, bytes + connection.header_read,
                             sizeof connection.request - connection.header_read, 0);
  const Moved progress = progress_of(got, connection);
  if (progress == Moved::kDone) connection.header_read += static_cast<std::size_t>(got);
  return progress;
}

Moved read_payload(Caller& connection, std::span<std::byte> scratch) {
  const ssize_t got =
      ::recv(connection.descriptor, scratch.data(), std::min(scratch.size(), connection.payload_left), 0);
  const Moved progress = progress_of(got, connection);
  if (progress == Moved::kDone) connection.payload_left -= static_cast<std::size_t>(got);
  return progress;
}

Moved write_reply(Caller& connection, std::span<std::byte> payload) {
  const std::size_t whole = sizeof connection.reply + connection.reply.payload_bytes;
  const std::size_t done = whole - connection.reply_left;
  std::array<iovec, 2> parts{};
  int count = 0;
  if (done < sizeof connection.reply) {
    parts.at(count++) = {reinterpret_cast<std::byte*>(&connection.reply) + done,
                         sizeof connection.reply - done};
  }
  const std::size_t payload_left =
      std::min<std::size_t>(connection.reply_left, connection.reply.payload_bytes);
  if (payload_left > 0) parts.at(count++) = {payload.data(), payload_left};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = static_cast<std::size_t>(count);
  const ssize_t sent = ::sendmsg(connection.descriptor, &message, MSG_NOSIGNAL);
  const Moved progress = progress_of(sent, connection);
  if (progress == Moved::kDone) connection.reply_left -= static_cast<std::size_t>(sent);
  return progress;
}

}  // namespace

struct LinkBenchmarkServer::Impl {
  explicit Impl(const std::string& address)
      : listener("node_benchmark", Address::parse(address),
                 "serve at another port, and give it to this machine in node_configs.json") {}

  // Whether this connection may be measured with now.
  bool admits(const Caller& connection, Clock::time_point now) {
    const bool over = now - begun > kLongest;
    const bool is_current = current != nullptr && is_same_client(connection, *current);
    if (now - heard > kSilent || (over && !is_current)) {
      current = &connection;
      begun = now;
    } else if (over || !is_current) {
      return false;
    }
    heard = now;
    return true;
  }

  void answer(Caller& connection) {
    const BenchmarkHeader& request = connection.request;
    connection.reply = request;
    connection.header_read = 0;
    const bool admitted = admits(connection, Clock::now());
    connection.reply.kind = admitted ? BenchmarkKind::kReply : BenchmarkKind::kBusy;
    connection.reply.payload_bytes = admitted ? request.reply_bytes : 0;
    connection.reply.reply_bytes = 0;
    if (request.kind == BenchmarkKind::kCallBack)
      connection.reply.port = admitted && calls_back(connection) ? request.port : 0;
    if (admitted && request.rest_ns > 0) {
      constexpr std::chrono::nanoseconds kMost{std::numeric_limits<std::uint32_t>::max()};
      const auto rested = std::min(rest(std::chrono::nanoseconds(request.rest_ns)), kMost);
      connection.reply.rest_ns = static_cast<std::uint32_t>(rested.count());
    }
    connection.reply_left = sizeof connection.reply + connection.reply.payload_bytes;
  }

  // Connects to the port that the caller names, of the machine that he calls from and no other.
  static bool calls_back(const Caller& connection) {
    const bool is_ipv6 = connection.from.find(':') != std::string::npos;
    const std::string host = is_ipv6 ? fmt::format("[{}]", connection.from) : connection.from;
    try {
      return answers(fmt::format("{}:{}", host, connection.request.port), kCallBack);
    } catch (const Interrupted&) {
      throw;
    } catch (const Error&) {  // something else answers there
      return false;
    }
  }

  // Reads and answers as far as the connection goes without waiting, for a while; false when it has to be
  // closed.
  bool serve(Caller& connection) {
    constexpr int kBurst = 64;  // system calls, before others have their turn
    for (int i = 0; i < kBurst; ++i) {
      Moved progress = Moved::kDone;
      if (connection.answers()) {
        progress = write_reply(connection, scratch);
      } else if (connection.header_read < sizeof connection.request) {
        progress = read_header(connection);
        if (connection.header_read == sizeof connection.request && !take(connection)) return false;
      } else {
        progress = read_payload(connection, scratch);
      }
      if (progress == Moved::kClosed) return false;
      if (progress == Moved::kBlocked) return true;
      const bool is_whole =
          connection.header_read == sizeof connection.request && connection.payload_left == 0;
      if (!connection.answers() && is_whole) answer(connection);
    }
    return true;
  }

  // A header has come; false when it is no request.
  bool take(Caller& connection) {
    const BenchmarkHeader& request = connection.request;
    const bool is_call_back =
        request.kind == BenchmarkKind::kCallBack && request.port != 0 && request.payload_bytes == 0;
    const bool is_request = request.is_valid() && (request.kind == BenchmarkKind::kRequest || is_call_back) &&
                            std::chrono::nanoseconds(request.rest_ns) <= kMostBenchmarkRest;
    if (!is_request) {
      const bool is_older = request.magic == kBenchmarkMagic && request.version != kBenchmarkVersion;
      warnings.warn(
          is_older ? fmt::format("disconnected {}, a node_benchmark of another version: use the same "
                                 "Rookery everywhere",
                                 connection.from)
                   : fmt::format("disconnected {}: that is no request of node_benchmark", connection.from),
          Clock::now());
      return false;
    }
    connection.payload_left = request.payload_bytes;
    return true;
  }

  void accept_all() {
    while (connections.size() < kMostConnections) {
      SocketAddress from;
      from.size = sizeof from.storage;
      const int descriptor =
          ::accept4(listener.descriptor(), from.pointer(), &from.size, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (descriptor < 0) return;
      const int on = 1;
      ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      connections.push_back(std::make_unique<Caller>(descriptor, from.host()));
    }
  }

  static bool is_same_client(const Caller& one, const Caller& other) {
    return &one == &other ||
           (one.request.client != 0 && one.request.client == other.request.client && one.from == other.from);
  }

  void close_if(const auto& is_over) {
    const auto stays = [&](const std::unique_ptr<Caller>& connection) {
      return !is_over(*connection) && is_same_client(*connection, *current);
    };
    if (current != nullptr && is_over(*current)) {
      const auto another = std::ranges::find_if(connections, stays);
      current = another == connections.end() ? nullptr : another->get();
      if (current == nullptr) heard = {};
    }
    std::erase_if(connections,
                  [&](const std::unique_ptr<Caller>& connection) { return is_over(*connection); });
  }

  void close_idle() {
    const auto now = Clock::now();
    close_if([&](const Caller& connection) {
      if (now - connection.moved < kSilent) return false;
      if (connection.answers()) {
        warnings.warn(fmt::format("disconnected {}, which does not read what it asked for", connection.from),
                      now);
      }
      return true;
    });
  }

  Listener listener;
  // Of all connections, both ways: nobody looks at what a payload holds.
  std::vector<std::byte> scratch = std::vector<std::byte>(kMostBenchmarkPayload);
  std::vector<std::unique_ptr<Caller>> connections;
  WarningLimiter warnings;
  const Caller* current = nullptr;  // that is measured with, as is what is of the same client
  Clock::time_point begun{}, heard{};
};

LinkBenchmarkServer::LinkBenchmarkServer(const std::string& address)
    : impl_(std::make_unique<Impl>(address)) {}
LinkBenchmarkServer::~LinkBenchmarkServer() = default;

std::string LinkBenchmarkServer::address() const {
  return impl_->listener.address().to_string();
}

void LinkBenchmarkServer::serve(int stop_descriptor) {
  constexpr int kTickMs = 1000;
  auto& connections = impl_->connections;
  while (true) {
    const bool is_full = connections.size() >= kMostConnections;
    std::vector<pollfd> items{{stop_descriptor, POLLIN, 0},
                              {is_full ? -1 : impl_->listener.descriptor(), POLLIN, 0}};
    const std::size_t first = items.size();
    for (const auto& connection : connections) {
      items.push_back(
          {connection->descriptor, static_cast<short>(connection->answers() ? POLLOUT : POLLIN), 0});
    }
    if (::poll(items.data(), items.size(), kTickMs) < 0 && errno != EINTR)
      throw TransportError(fmt::format("node_benchmark cannot wait for its peers: {}", std::strerror(errno)));
    if ((items[0].revents & POLLIN) != 0) return;
    std::vector<const Caller*> over;
    for (std::size_t i = 0; i < connections.size(); ++i) {
      if (items[first + i].revents != 0 && !impl_->serve(*connections[i]))
        over.push_back(connections[i].get());
    }
    impl_->close_if(
        [&](const Caller& connection) { return std::ranges::find(over, &connection) != over.end(); });
    impl_->close_idle();
    if (items[1].revents != 0) impl_->accept_all();
  }
}

}  // namespace rookery
