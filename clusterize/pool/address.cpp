#include "clusterize/pool/address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

constexpr std::size_t kMaxHost = 253;
constexpr std::size_t kMaxLabel = 63;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// A decimal number without sign or leading zeros, up to `largest`.
bool is_number(std::string_view text, int largest) {
  if (text.empty() || text.size() > 5 || !std::ranges::all_of(text, is_digit)) return false;
  if (text.size() > 1 && text.front() == '0') return false;
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number <= largest;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

bool is_label(std::string_view label) {
  const auto allowed = [](char c) { return is_digit(c) || is_letter(c) || c == '-' || c == '_'; };
  return !label.empty() && label.size() <= kMaxLabel && std::ranges::all_of(label, allowed) &&
         label.front() != '-' && label.back() != '-';
}

// As RFC 5952 writes it; empty where it is no IPv6 address in brackets.
std::string canonical_ipv6(std::string_view host) {
  if (host.size() < 2 || host.front() != '[' || host.back() != ']') return {};
  const std::string inside(host.substr(1, host.size() - 2));
  in6_addr address{};
  // What stands behind a zero byte would not be seen.
  if (inside.find('\0') != std::string::npos || ::inet_pton(AF_INET6, inside.c_str(), &address) != 1)
    return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, &address, text.data(), text.size());
  return fmt::format("[{}]", text.data());
}

bool is_host(std::string_view host) {
  if (host.starts_with('[')) return !canonical_ipv6(host).empty();
  const std::vector<std::string_view> parts = split(host, '.');
  if (std::ranges::all_of(parts.back(), is_digit)) {
    return parts.size() == 4 &&
           std::ranges::all_of(parts, [](std::string_view part) { return is_number(part, 255); });
  }
  return host.size() <= kMaxHost && std::ranges::all_of(parts, is_label);
}

}  // namespace

std::string address_problem(std::string_view address, AddressUse use) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || address.ends_with(']'))
    return "has no port: write HOST:PORT, e.g. 10.0.0.7:8080";
  const std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  if (!host.starts_with('[') && !canonical_ipv6(fmt::format("[{}]", host)).empty())
    return "is an IPv6 address without brackets: write [HOST]:PORT, e.g. [2001:db8::7]:8080";
  if (!is_host(host) && !(host == "*" && use == AddressUse::kListen)) {
    return "does not begin with an IPv4 address, an IPv6 address in brackets or a host name: write "
           "HOST:PORT, "
           "e.g. 10.0.0.7:8080, [2001:db8::7]:8080 or lab-pc-3:8080";
  }
  if (!is_number(port, 65535) || (port == "0" && use == AddressUse::kReach))
    return "does not end in a port from 1 to 65535: write HOST:PORT, e.g. 10.0.0.7:8080";
  return {};
}

std::string host_of(std::string_view address) {
  const std::string_view host = address.substr(0, address.rfind(':'));
  return host.starts_with('[') ? canonical_ipv6(host) : std::string(host);
}

int port_of(std::string_view address) {
  int port = 0;
  std::from_chars(address.data() + address.rfind(':') + 1, address.data() + address.size(), port);
  return port;
}

std::string further_address(std::string_view address, int chunk, const std::set<int>& taken) {
  constexpr int kApart = 1000;
  constexpr int kFirst = 1024;  // that needs no privileges
  constexpr int kLast = 65'535;
  int port = port_of(address) + kApart * chunk;
  if (port > kLast) port = port_of(address) - kApart * chunk;
  while (taken.contains(port)) port = port == kLast ? kFirst : port + 1;
  return fmt::format("{}:{}", address.substr(0, address.rfind(':')), port);
}

}  // namespace rookery
