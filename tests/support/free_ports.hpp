// Ports for nodes whose addresses have to be known before they listen.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "models/base/libraries/format.hpp"

namespace rookery {

// A port that nobody listens on and that no other test takes as long as this process lives: its number is
// claimed by a socket whose name the system frees by itself (tests/whole uses the same names). Whether it
// could be had.
inline bool claim_port(int port) {
  const int claim = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const std::string name = fmt::format("rookery-test-port-{}", port);
  sockaddr_un claimed{};
  claimed.sun_family = AF_UNIX;
  std::memcpy(claimed.sun_path + 1, name.data(), name.size());  // behind a zero: a name that is no file
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  bool is_free = ::bind(claim, reinterpret_cast<const sockaddr*>(&claimed), size) == 0;
  if (is_free) {
    const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    is_free = ::bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(probe);
  }
  if (!is_free) ::close(claim);
  return is_free;
}

// Below those that the system hands out, so that no connection takes one.
inline std::vector<int> free_ports(int count) {
  std::random_device random;
  std::uniform_int_distribution<int> numbers(10'000, 30'000);
  std::vector<int> ports;
  while (std::ssize(ports) < count) {
    const int port = numbers(random);
    if (claim_port(port)) ports.push_back(port);
  }
  return ports;
}

}  // namespace rookery
