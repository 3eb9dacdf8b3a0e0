#include "node/sockets/address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <vector>

#include "clusterize/pool/address.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

constexpr int kListening = 0x0A;  // TCP_LISTEN in /proc/net/tcp

// Inodes of the sockets that listen on `port`, from /proc/net/tcp or tcp6: "sl local_address
// rem_address st tx_queue:rx_queue tr:when retrnsmt uid timeout inode", addresses as HEX:PORT.
void add_listening_inodes(const char* table, std::uint16_t port, std::set<std::string>& inodes) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
    const auto colon = local.rfind(':');
    if (!fields || colon == std::string::npos) continue;
    const auto number = [](const std::string& hex) { return std::strtoul(hex.c_str(), nullptr, 16); };
    if (number(local.substr(colon + 1)) == port && number(state) == kListening) inodes.insert(inode);
  }
}

bool holds_one_of(const std::filesystem::path& process, const std::set<std::string>& inodes) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(process / "fd", error)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    constexpr std::string_view kSocket = "socket:[";
    if (!target.starts_with(kSocket)) continue;
    if (inodes.contains(target.substr(kSocket.size(), target.size() - kSocket.size() - 1))) return true;
  }
  return false;
}

// The numeric address; empty where it is of another family.
std::string host_of(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text.data(), text.size());
  } else if (address.sa_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text.data(),
                text.size());
  }
  return text.data();
}

std::set<std::string> own_addresses() {
  std::set<std::string> own;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return own;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    const std::string host = i->ifa_addr == nullptr ? "" : host_of(*i->ifa_addr);
    if (!host.empty()) own.insert(host);
  }
  ::freeifaddrs(list);
  return own;
}

bool is_every_interface(const std::string& host) {
  return host == "0.0.0.0" || host == "*" || host == "::";
}

bool is_numeric_ipv6(const std::string& host) {
  return host.find(':') != std::string::npos;
}

}  // namespace

Address Address::parse(const std::string& text) {
  if (const std::string problem = address_problem(text, AddressUse::kListen); !problem.empty())
    throw ConfigError(fmt::format("\"{}\" {}", text, problem));
  const auto colon = text.rfind(':');
  std::uint16_t port = 0;
  std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  const bool is_bracketed = text.front() == '[';
  return {is_bracketed ? text.substr(1, colon - 2) : text.substr(0, colon), port};
}

std::string Address::to_string() const {
  return is_numeric_ipv6(host) ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Address Address::reachable() const {
  if (!is_every_interface(host)) return *this;
  return {is_numeric_ipv6(host) ? "::1" : "127.0.0.1", port};
}

bool Address::is_ipv6() const {
  if (is_numeric_ipv6(host)) return true;
  const std::vector<std::string> found = resolve(host);
  return !found.empty() && is_numeric_ipv6(found.front());
}

void check_address(const std::string& option, const std::string& value) {
  try {
    Address::parse(value);
  } catch (const ConfigError& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

std::vector<std::string> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<std::string> found;
  for (const addrinfo* i = list; i != nullptr; i = i->ai_next) {
    if (std::string text = host_of(*i->ai_addr); !text.empty()) found.push_back(std::move(text));
  }
  std::stable_partition(found.begin(), found.end(),
                        [](const std::string& text) { return !is_numeric_ipv6(text); });
  return found;
}

SocketAddress socket_address(const std::string& numeric, std::uint16_t port) {
  SocketAddress made;
  if (is_numeric_ipv6(numeric)) {
    auto& of = reinterpret_cast<sockaddr_in6&>(made.storage);
    of.sin6_family = AF_INET6;
    of.sin6_port = htons(port);
    ::inet_pton(AF_INET6, numeric.c_str(), &of.sin6_addr);
    made.size = sizeof of;
  } else {
    auto& of = reinterpret_cast<sockaddr_in&>(made.storage);
    of.sin_family = AF_INET;
    of.sin_port = htons(port);
    ::inet_pton(AF_INET, numeric.c_str(), &of.sin_addr);
    made.size = sizeof of;
  }
  return made;
}

std::uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                                    : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

std::string SocketAddress::host() const {
  return host_of(*pointer());
}

bool is_local(const Address& address) {
  if (is_every_interface(address.host)) return true;
  const std::set<std::string> own = own_addresses();
  return std::ranges::any_of(resolve(address.host), [&](const std::string& found) {
    return own.contains(found) || found.starts_with("127.");
  });
}

std::optional<std::string> port_owner(std::uint16_t port) {
  std::set<std::string> inodes;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) add_listening_inodes(table, port, inodes);
  if (inodes.empty()) return std::nullopt;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos || !holds_one_of(entry.path(), inodes))
      continue;
    std::string command;
    std::getline(std::ifstream(entry.path() / "comm"), command);
    return fmt::format("process {} ({})", name, command);
  }
  return std::nullopt;
}

}  // namespace rookery
