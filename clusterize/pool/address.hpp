// An address says where a provider listens: "HOST:PORT". It also names the folder of the provider's stage, so
// it is checked wherever it comes from a file.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace rookery {

// Whoever listens may do so at any free port (0) and on every interface (*); others have to know both.
enum class AddressUse : std::uint8_t { kReach, kListen };

// Says what is wrong with an address, in words that follow the address: "has no port: write HOST:PORT, …";
// empty when it is an IPv4 address, an IPv6 address in brackets or a host name, followed by a port from 1 to
// 65535. Host names are those of RFC 1123, and may have underscores, as names in local networks do.
std::string address_problem(std::string_view address, AddressUse use = AddressUse::kReach);

// The host of an address that has no problem; an IPv6 address in brackets and as RFC 5952 writes it, whatever
// way the address does: "[::1]" of "[0:0:0:0:0:0:0:1]:8080".
std::string host_of(std::string_view address);

// The port of an address that has no problem.
int port_of(std::string_view address);

// Where the machine of an address listens for its chunk `chunk`, from 1: at the port that is so many
// thousands higher, or lower where there is none so high, or the next one that is not among `taken`, the
// host's.
std::string further_address(std::string_view address, int chunk, const std::set<int>& taken);

}  // namespace rookery
