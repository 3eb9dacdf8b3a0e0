// Who gives what of a run's state to whom: tensors by name and range, between stages of any clusters and
// cuts.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/tensor/tensor.hpp"
#include "trainer/checkpoint/reshard/told_by_all.hpp"

namespace rookery {

struct NodePlace {
  int cluster = 0;
  int stage = 0;
  auto operator<=>(const NodePlace&) const = default;
};

// Bytes of a tensor from `begin` on.
struct StateRange {
  std::string name;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  auto operator<=>(const StateRange&) const = default;
};
// As large as ranges are: a node keeps no more of what it hands on.
constexpr std::uint64_t kMostOfRange = 1U << 20;
// A tensor of so many bytes in such ranges.
std::vector<StateRange> ranges_of(const std::string& name, std::uint64_t bytes);

// What a node has to give, and what it lacks.
struct NodeState {
  struct Type {
    std::string text;  // "f32[64, 10]"
    std::uint64_t bytes = 0;
  };
  std::map<std::string, Type> has;
  std::map<std::string, Type> lacks;
  std::vector<StateRange> wants;  // of these
  // The cluster that is to give it; none: any, its own before all others.
  std::optional<int> from;

  void add_to_has(const std::string& name, const TensorType& type);
  // All of it.
  void add_to_wants(const std::string& name, const TensorType& type);
};
void to_json(nlohmann::json& json, const NodeState& state);
void from_json(const nlohmann::json& json, NodeState& state);

struct StateRoute {
  StateRange range;
  NodePlace from;
  std::vector<NodePlace> to;
};

// The same on every node that was told the same. The first stage of a cluster that has a tensor gives it;
// what nobody has is left out. DataError where nodes take it for tensors of different types; TransportError
// for a range that is not in the tensor, or too large.
std::vector<StateRoute> state_routes(const OfNodes<NodeState>& nodes);

// How a node takes part: whom it is sent the range by, if by anybody, and whom it sends it to.
struct RouteHop {
  struct Peer {
    bool is_root = false;  // of another cluster, in the Roots' ring: the rank is its cluster
    int rank = 0;
    bool operator==(const Peer&) const = default;
  };
  std::optional<Peer> from;
  std::vector<Peer> to;
};
// Within a cluster stages send to each other; to other clusters it goes by the Root, from there round the
// Roots' ring as far as it is wanted, and from these Roots to their stages.
RouteHop hop_of(const StateRoute& route, NodePlace node, int clusters);

}  // namespace rookery
