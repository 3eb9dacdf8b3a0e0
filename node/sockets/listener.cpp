#include "node/sockets/listener.hpp"

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

// Connections that wait for being accepted. Beyond it the kernel lets newcomers try again, so that a flood of
// them delays a peer by the time that this many take, and not by that of all.
constexpr int kBacklog = 64;

// The numeric addresses to bind, the best first.
std::vector<std::string> addresses_to_bind(const std::string& host) {
  if (host == "*") return {"0.0.0.0"};
  std::vector<std::string> found = resolve(host);
  const auto is_loopback = [](const std::string& address) {
    return address.starts_with("127.") || address == "::1";
  };
  const bool is_name = found != std::vector{host} && host.find(':') == std::string::npos;
  if (is_name && host != "localhost" && !found.empty() && std::ranges::all_of(found, is_loopback))
    return {"0.0.0.0"};
  return found;
}

// A listening socket, or -1 and errno. One at all IPv6 addresses takes IPv4, too.
int listen_at(const std::string& numeric, std::uint16_t port) {
  const SocketAddress where = socket_address(numeric, port);
  const int descriptor = ::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return -1;
  const int on = 1;  // a run can follow another at once
  const int off = 0;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (where.family() == AF_INET6) ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(descriptor, where.pointer(), where.size) == 0 && ::listen(descriptor, kBacklog) == 0) {
    return descriptor;
  }
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return -1;
}

std::uint16_t bound_port(int descriptor) {
  SocketAddress bound;
  bound.size = sizeof bound.storage;
  ::getsockname(descriptor, bound.pointer(), &bound.size);
  return bound.port();
}

std::string reason_of(int error, const std::string& who, const Address& address,
                      const std::string& other_port) {
  if (error == EADDRINUSE) {
    const auto owner = port_owner(address.port);
    return fmt::format("port {} is in use{}: end that program, or {}", address.port,
                       owner ? " by " + *owner : "", other_port);
  }
  if (error == EADDRNOTAVAIL) {
    return fmt::format(
        "this machine has no address {}: start {} on the machine that has it, or say with --listen "
        "where to listen instead",
        address.host, who);
  }
  if (error == EACCES) return fmt::format("ports below 1024 need root: use a port above 1023");
  return std::strerror(error);
}

}  // namespace

Listener::Listener(const std::string& who, const Address& address, const std::string& other_port)
    : address_(address) {
  const auto fail = [&](const std::string& reason) {
    throw TransportError(fmt::format("{} cannot listen at {}: {}", who, address.to_string(), reason));
  };
  const std::vector<std::string> candidates = addresses_to_bind(address.host);
  if (candidates.empty()) {
    fail(fmt::format(
        "this machine cannot resolve the host name {}: write its address into node_configs.json, or say "
        "with --listen where to listen",
        address.host));
  }
  int error = 0;
  for (const std::string& candidate : candidates) {
    descriptor_ = listen_at(candidate, address.port);
    if (descriptor_ >= 0) break;
    if (error != EADDRINUSE) error = errno;
  }
  if (descriptor_ < 0) fail(reason_of(error, who, address, other_port));
  address_.port = bound_port(descriptor_);
}

void Listener::turn_away(bool newcomers) {
  sock_filter drop_all{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop_all};
  const int option = newcomers ? SO_ATTACH_FILTER : SO_DETACH_FILTER;
  ::setsockopt(descriptor_, SOL_SOCKET, option, &program, sizeof program);
}

Listener::~Listener() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace rookery
