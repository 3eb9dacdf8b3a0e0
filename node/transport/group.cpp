#include "node/transport/group.hpp"

#include <algorithm>
#include <utility>

#include "models/base/check.hpp"

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

Group::Group(Waker& waker, const EndpointOptions& endpoint, GroupOptions given, std::vector<Place> others)
    : options(holding_a_message(std::move(given))),
      node(endpoint.node),
      rank(rank_of(endpoint.node, options)),
      places(std::move(others)),
      queues(waker, names_of(places), options.send_budget, options.receive_budget / 8, kMaxChunkBytes,
             options.deadline),
      membership(membership_options(endpoint, options), names_of(places), Clock::now()) {
  for (std::size_t i = 0; i < places.size(); ++i) members.push_back(new_member());
}

Group::Member Group::new_member() const {
  return {.out = SendStream(kMaxChunkBytes, options.group),
          .in = ReceiveStream(options.receive_budget, options.max_message_bytes, options.buffers),
          .ack_at = {}};
}

int Group::member_with(int at) const {
  const auto found = std::ranges::find(places, at, &Place::rank);
  ROOKERY_CHECK(found != places.end(), "rank {} is no other member of group {} of {}", at, options.group,
                node);
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
  return found == places.end() ? "" : found->name;
}

}  // namespace rookery
