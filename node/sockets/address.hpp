// Network addresses as they stand in node_configs.json, "10.0.0.7:8080" or "[2001:db8::7]:8080", and what
// this machine knows about them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rookery {

struct Address {
  std::string host;  // an IPv6 address without its brackets
  std::uint16_t port = 0;

  // ConfigError unless it reads HOST:PORT.
  static Address parse(const std::string& text);
  std::string to_string() const;
  // The address to connect to: a node that listens on every interface is reached on this machine.
  Address reachable() const;
  // Whether it is reached by IPv6: a host name only where it has no IPv4 address, as this machine resolves it
  // now.
  bool is_ipv6() const;
};

// UsageError where the value of an option is no address.
void check_address(const std::string& option, const std::string& value);

// The addresses of a host, "10.0.0.7" or "2001:db8::7", as this machine resolves its name now, those of IPv4
// first; none where it does not.
std::vector<std::string> resolve(const std::string& host);

// A numeric address and a port as the system's calls want them.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* pointer() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* pointer() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::uint16_t port() const;
  std::string host() const;  // "10.0.0.7", "2001:db8::7"
};
SocketAddress socket_address(const std::string& numeric, std::uint16_t port);

// Whether a node with this address runs on this machine.
bool is_local(const Address& address);

// "process 4711 (provider)": who listens on the TCP port, if /proc tells.
std::optional<std::string> port_owner(std::uint16_t port);

}  // namespace rookery
