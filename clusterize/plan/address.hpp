// Where a provider listens: "HOST:PORT". It also names the folder of the provider's stage, so it is
// checked wherever it comes from a file.
#pragma once

#include <string>
#include <string_view>

namespace rookery {

// What is wrong with it, in words that follow the address: "has no port after ':'"; empty when it
// is an IPv4 address or a host name (RFC 1123) followed by a port from 1 to 65535.
std::string address_problem(std::string_view address);

}  // namespace rookery
