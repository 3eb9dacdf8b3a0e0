// Network addresses as they stand in node_configs.json, "10.0.0.7:8080", and what this machine knows
// about them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rookery {

struct Address {
  std::string host;
  std::uint16_t port = 0;

  // ConfigError unless it reads HOST:PORT.
  static Address parse(const std::string& text);
  std::string to_string() const;
  // The address to connect to: a node that listens on every interface is reached on this machine.
  Address reachable() const;
};

// UsageError where the value of an option is no address.
void check_address(const std::string& option, const std::string& value);

// The IPv4 addresses of a host, "10.0.0.7", as this machine resolves its name now; none where it does not.
std::vector<std::string> resolve(const std::string& host);

// Whether a node with this address runs on this machine.
bool is_local(const Address& address);

// "process 4711 (provider)": who listens on the TCP port, if /proc tells.
std::optional<std::string> port_owner(std::uint16_t port);

}  // namespace rookery
