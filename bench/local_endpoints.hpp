// Endpoints of processes on this machine that know each other by their ranks.
#pragma once

#include <string>
#include <vector>

#include "models/base/libraries/format.hpp"
#include "node/transport/endpoint.hpp"

namespace rookery {

inline std::string local_node(int rank) {
  return fmt::format("node_{}", rank);
}

// `ports`: by rank.
inline EndpointPeer local_peer(const std::vector<int>& ports, int rank) {
  return {local_node(rank), fmt::format("127.0.0.1:{}", ports[rank])};
}

inline EndpointOptions local_endpoint(const std::vector<int>& ports, int rank) {
  EndpointOptions options;
  options.node = local_node(rank);
  options.address = local_peer(ports, rank).address;
  options.key = {"0123456789abcdef", "0123456789abcdef0123456789abcdef"};
  return options;
}

}  // namespace rookery
