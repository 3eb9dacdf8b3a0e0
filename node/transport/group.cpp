#include "node/transport/group.hpp"

#include <algorithm>
#include <utility>

#include "models/base/check.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

GroupOptions holding_a_message(GroupOptions options) {
  const std::uint64_t message = message_cost(options.max_message_bytes, kMaxChunkBytes);
  options.send_budget = std::max(options.send_budget, message);
  options.receive_budget = std::max(options.receive_budget, message);
  return options;
}

int rank_of(const std::string& node, const GroupOptions& options) {
  const auto found = std::ranges::find(options.members, node);
  ROOKERY_CHECK(found != options.members.end(), "{} is no member of group {}", node, options.group);
  return static_cast<int>(found - options.members.begin());
}

std::vector<std::string> names_of(const std::vector<Group::Place>& places) {
  std::vector<std::string> names;
  for (const Group::Place& place : places) names.push_back(place.name);
  return names;
}

MembershipOptions membership_options(const EndpointOptions& endpoint, const GroupOptions& group) {
  MembershipOptions made;
  made.node = endpoint.node;
  made.wait_for_peers = group.wait_for_peers;
  made.peer_timeout = endpoint.peer_timeout;
  made.reconnect_grace = endpoint.reconnect_grace;
  return made;
}

}  // namespace

std::vector<int> partners(const GroupOptions& options, const std::string& node) {
  const int own = rank_of(node, options);
  const auto count = static_cast<int>(options.members.size());
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank) {
    const bool is_neighbour = (rank + 1) % count == own || (own + 1) % count == rank;
    if (rank != own && (options.topology == Topology::kMesh || is_neighbour)) ranks.push_back(rank);
  }
  return ranks;
}

Group::Group(Waker& waker, const EndpointOptions& endpoint, GroupOptions given, std::vector<Place> others,
             const std::function<std::string(const Group&)>& place_of)
    : options(holding_a_message(std::move(given))),
      node(endpoint.node),
      rank(rank_of(endpoint.node, options)),
      places(std::move(others)),
      queues(waker, options.name, names_of(places), options.send_budget, options.receive_budget / 8,
             kMaxChunkBytes, options.deadline),
      membership(membership_options(endpoint, options), names_of(places), Clock::now(),
                 [this, place_of] { return place_of(*this); }) {
  for (std::size_t i = 0; i < places.size(); ++i) members.push_back(new_member());
}

Group::Member Group::new_member() const {
  return {.out = SendStream(kMaxChunkBytes, options.group),
          .in = ReceiveStream(options.receive_budget, options.max_message_bytes, options.buffers,
                              options.keeps_arrivals),
          .ack_at = {}};
}

int Group::member_with(int at) const {
  const auto found = std::ranges::find(places, at, &Place::rank);
  ROOKERY_CHECK(found != places.end(), "{} does not talk with rank {} of group {}", node, at, options.group);
  return static_cast<int>(found - places.begin());
}

std::optional<int> Group::member_of(int peer) const {
  const auto found = std::ranges::find(places, peer, &Place::peer);
  if (found == places.end()) return std::nullopt;
  return static_cast<int>(found - places.begin());
}

std::string Group::name_of(int at) const {
  if (at == rank) return "this node";
  const auto found = std::ranges::find(places, at, &Place::rank);
  if (found != places.end()) return found->name;
  return at < 0 || at >= std::ssize(options.members) ? "" : options.members[at];
}

std::string Group::work() const {
  if (!newest) return fmt::format("{}, before its first round", options.name);
  return fmt::format("{}, round {}", options.name, *newest);
}

void Group::note(const MessageKey& key) {
  newest = std::max(newest.value_or(key.step), key.step);
}

}  // namespace rookery
