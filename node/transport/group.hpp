// A group as its endpoint keeps it: the other members that this one talks with, the streams to and from them,
// and whether its run goes on. `queues` may be used by any thread as they say themselves; what stands below
// them is protected by the turn of `IoLoop`, and all else never changes.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "node/membership/membership.hpp"
#include "node/transport/endpoint.hpp"
#include "node/transport/threads/link_queues.hpp"
#include "node/wire/packets.hpp"
#include "node/wire/stream.hpp"

namespace rookery {

// Ranks of the members that this node talks with, rising.
std::vector<int> partners(const GroupOptions& options, const std::string& node);

struct Group {
  struct Place {  // of another member that this node talks with
    int peer;     // of the endpoint
    int rank;
    std::string name;  // "node_1 (0.0.0.0:8081)"
  };
  // `place_of` says for messages where a member was lost; called in the turn.
  Group(Waker& waker, const EndpointOptions& endpoint, GroupOptions given, std::vector<Place> others,
        const std::function<std::string(const Group&)>& place_of);

  // Which of the places has this rank; BugError where none has.
  int member_with(int rank) const;
  // Which of them is this peer of the endpoint, if any.
  std::optional<int> member_of(int peer) const;
  // "this node", "node_1 (…)", "node_1" that this node does not talk with; empty for a rank that nobody has.
  std::string name_of(int at) const;
  // Of a group with a name: "ring 2, round 17", its newest.
  std::string work() const;
  // A message of this key was sent or comes.
  void note(const MessageKey& key);

  const GroupOptions options;
  const std::string node;  // own name
  const int rank;          // own
  const std::vector<Place> places;

  LinkQueues queues;

  struct Member {
    SendStream out;
    ReceiveStream in;
    std::optional<Clock::time_point> ack_at;  // when an acknowledgement is due
    Clock::time_point join_at{};              // when to say again that this node takes part
  };
  // The streams of a process that has said nothing yet.
  Member new_member() const;

  std::vector<Member> members;         // by place
  std::optional<std::int64_t> newest;  // step of which there was a message
  Membership membership;
  LinkQueues::Requests requests;
  std::optional<CtlStatus> status;   // to be told
  std::optional<StopNotice> notice;  // why it has failed
};

}  // namespace rookery
