// What the I/O does for groups: their beginning, what their threads ask for, what their Membership decides,
// their end.

#include <algorithm>
#include <utility>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/stop_signals.hpp"
#include "node/transport/io_loop.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kJoinAgain{1000};

}  // namespace

std::shared_ptr<Group> IoLoop::open(GroupOptions options) {
  std::vector<Group::Place> places;
  for (const int rank : partners(options, options_.node)) {
    const std::string& node = options.members[rank];
    const auto known = std::ranges::find_if(peers_, [&](const Peer& peer) { return peer.who.node == node; });
    ROOKERY_CHECK(known != peers_.end(), "{} is no peer of {}", node, options_.node);
    places.push_back({static_cast<int>(known - peers_.begin()), rank, known->name});
  }
  const GroupId number = options.group;
  ROOKERY_CHECK(!places.empty(), "group {} has no members but {}", number, options_.node);
  auto group = std::make_shared<Group>(waker_, options_, std::move(options), std::move(places),
                                       [this](const Group& lost_in) { return place_of(lost_in); });
  {
    const std::scoped_lock lock(opened_mutex_);
    ROOKERY_CHECK(numbers_.insert(number).second, "group {} was opened before", number);
    if (is_closed_) group->queues.fail(fmt::format("the endpoint of {} has ended", options_.node), 0);
    opened_.push_back(group);
  }
  waker_.wake_up();
  return group;
}

// A pipeline has no rounds: those of the rings beside it say how far the run has come.
std::string IoLoop::place_of(const Group& group) const {
  if (!group.options.name.empty()) return group.work();
  for (const auto& [number, other] : groups_)
    if (!other->options.name.empty()) return "its pipeline, beside " + other->work();
  return "";
}

void IoLoop::begin(Group& group) {
  if (run_ended_) return tell(group, *run_ended_);
  for (const Group::Place& place : group.places) {
    if (peers_[place.peer].shared_groups.size() < kMostGroups) continue;
    return tell(group,
                event::StopWanted{{options_.node, fmt::format("failed: it is in {} groups with {}, which "
                                                              "is the limit",
                                                              kMostGroups, place.name)}});
  }
  for (int member = 0; member < static_cast<int>(group.members.size()); ++member) {
    const SharedGroup shared{&group, member};
    const int index = peer_of(shared);
    Peer& peer = peers_[index];
    peer.shared_groups.push_back(shared);
    peer.order.add(group.options.priority, shared.streams().out);
    const Address address = Address::parse(peer.who.address).reachable();
    // ZeroMQ would try for ever, and say nothing.
    const bool is_new = peer.who.reachable && !state_of(index, Channel::kControl).outgoing.is_open();
    if (is_new && resolve(address.host).empty()) {
      tell(group,
           event::PeerRefused{member, fmt::format("this machine cannot resolve the host name {}; check "
                                                  "node_configs.json, or /etc/hosts here",
                                                  address.host)});
    }
    for (const Channel channel : channels_of(index)) reach(index, channel);
    if (peer.nonce) tell(group, event::PeerCame{member, *peer.nonce});
    if (peer.is_welcomed()) tell(group, event::PeerWelcomed{member});
    send_join(shared);
  }
}

void IoLoop::serve_requests() {
  std::vector<std::shared_ptr<Group>> opened;
  {
    const std::scoped_lock lock(opened_mutex_);
    opened.swap(opened_);
  }
  // All are known before anything can go wrong, which fails them all.
  for (const std::shared_ptr<Group>& group : opened) groups_.emplace(group->options.group, group);
  if (!opened.empty()) misses_descriptors_.fill(true);
  for (const std::shared_ptr<Group>& group : opened) begin(*group);
  for (const auto& [number, group] : groups_) serve_requests(*group);
}

void IoLoop::serve_requests(Group& group) {
  LinkQueues::Requests& requests = group.requests;
  group.queues.collect(requests);
  if (requests.status) group.status = requests.status;
  if (requests.figures) {
    const int last = static_cast<int>(group.options.members.size()) - 1;
    send_control(peer_of({&group, group.member_with(last)}), *requests.figures);
  }
  for (int member = 0; member < static_cast<int>(group.members.size()); ++member) {
    const SharedGroup shared{&group, member};
    Group::Member& streams = shared.streams();
    const int peer = peer_of(shared);
    for (const OutgoingMessage& message : requests.messages[member]) {
      group.note(message.key);
      streams.out.push(message);
    }
    send_chunks(peer);
    if (requests.flush && !streams.out.empty()) request_ack(peer, group.options.group);
    if (requests.released[member] == 0) continue;
    streams.in.release(requests.released[member]);
    if (streams.in.unannounced_credit() >= group.options.receive_budget / 4) {
      send_ack(shared);
    } else if (!streams.ack_at) {
      streams.ack_at = now_ + kAckDelay;
    }
  }
  if (requests.leave) tell(group, event::LeaveWanted{});
  if (requests.stop) tell(group, event::StopWanted{*requests.stop});
}

void IoLoop::serve_stop_signal() {
  const int signal = stop_signal();
  if (signal == 0) return;
  for (const auto& [number, group] : groups_)
    tell(*group, event::StopWanted{{options_.node, stop_reason(signal), signal}});
}

void IoLoop::serve_group(Group& group, bool tick) {
  for (int member = 0; member < static_cast<int>(group.members.size()); ++member) {
    const SharedGroup shared{&group, member};
    Group::Member& streams = shared.streams();
    const int peer = peer_of(shared);
    if (streams.ack_at && now_ >= *streams.ack_at) send_ack(shared);
    if (!group.membership.joined(member) && now_ >= streams.join_at) send_join(shared);
    if (tick && group.status) send_control(peer, *group.status);
  }
  if (tick) group.status.reset();
}

void IoLoop::send_join(const SharedGroup& shared) {
  const Group& group = *shared.group;
  shared.streams().join_at = now_ + kJoinAgain;
  if (!state_of(peer_of(shared), Channel::kControl).welcomed) return;  // it is said with the welcome
  ReceiveStream& in = shared.streams().in;
  send_control(peer_of(shared), CtlJoin{group.options.group, group.rank,
                                        static_cast<std::int32_t>(group.options.members.size()),
                                        group.membership.joined(shared.member), in.position()});
  in.announced();
}

std::optional<IoLoop::SharedGroup> IoLoop::shared_group_of(int peer, GroupId number) {
  const auto found = groups_.find(number);
  if (found == groups_.end()) return std::nullopt;
  if (const auto member = found->second->member_of(peer)) return SharedGroup{found->second.get(), *member};
  throw TransportError(fmt::format("group {}, of which it is no member", number));
}

void IoLoop::tell(Group& group, const MembershipEvent& event) {
  for (const MembershipAction& action : group.membership.on(event, now_)) act(group, action);
}

void IoLoop::act(Group& group, const MembershipAction& action) {
  const GroupId number = group.options.group;
  const auto peer = [&](int member) { return group.places[member].peer; };
  if (std::holds_alternative<action::Begin>(action)) {
    group.queues.begin();
  } else if (const auto* report = std::get_if<action::Report>(&action)) {
    if (options_.on_waiting) {
      options_.on_waiting(report->text);
    } else {
      spdlog::info("{}", report->text);
    }
  } else if (const auto* stop = std::get_if<action::FloodStop>(&action)) {
    group.notice = stop->notice;
    for (int i = 0; i < static_cast<int>(group.members.size()); ++i) {
      if (i == stop->except) continue;
      send_control(peer(i), CtlStop{number, stop->notice.origin, stop->notice.reason, stop->notice.signal});
    }
  } else if (const auto* bye = std::get_if<action::SendBye>(&action)) {
    if (group.status) send_control(peer(bye->peer), *group.status);  // the last one
    send_control(peer(bye->peer), CtlBye{number, bye->confirms});
  } else if (const auto* forget = std::get_if<action::Forget>(&action)) {
    keep_unread(group.members[forget->peer].out);
    group.members[forget->peer] = group.new_member();
    group.queues.forget(forget->peer);
  } else if (const auto* departed = std::get_if<action::Departed>(&action)) {
    group.queues.depart(departed->peer);
  } else if (const auto* fail = std::get_if<action::Fail>(&action)) {
    group.queues.fail(fail->message, fail->signal);
    if (options_.groups_end_together && !run_ended_) end_run(*group.notice, *fail);
  } else {
    group.queues.end();
  }
}

void IoLoop::end_run(const StopNotice& notice, const action::Fail& fail) {
  run_ended_ = {notice, fail.message, fail.signal};
  for (const auto& [number, group] : groups_) tell(*group, *run_ended_);
}

// Connections stand as long as a group has both of their nodes.
void IoLoop::retire_ended() {
  std::vector<std::shared_ptr<Group>> over;
  std::erase_if(groups_, [&](const auto& entry) {
    if (entry.second->membership.over()) over.push_back(entry.second);
    return entry.second->membership.over();
  });
  if (!over.empty() && groups_.empty()) take_out(options_.stop_descriptor);
  for (const std::shared_ptr<Group>& group : over) {
    ended_[group->options.group] = group->notice;
    for (int member = 0; member < static_cast<int>(group->members.size()); ++member) {
      const int index = group->places[member].peer;
      Peer& peer = peers_[index];
      std::erase_if(peer.shared_groups,
                    [&](const SharedGroup& shared) { return shared.group == group.get(); });
      peer.order.remove(group->members[member].out);
      keep_unread(group->members[member].out);
      if (peer.shared_groups.empty()) part_from(index);
    }
  }
}

void IoLoop::keep_unread(SendStream& stream) {
  if (shares_memory() && !stream.empty()) unread_.push_back(std::move(stream));
}

void IoLoop::part_from(int peer) {
  peers_[peer].to_local.end_session();
  receive_locally(peer, std::nullopt);
  for (const Channel channel : channels_of(peer)) {
    ChannelState& each = state_of(peer, channel);
    const bool says_farewell = channel == Channel::kControl && each.outgoing.is_connected();
    close(each, says_farewell ? kFarewell : milliseconds(0));
    each.welcomed = false;
    each.reopen_at.reset();
  }
}

// To a peer that takes it as going on: what it was told of the end has been lost with a connection.
void IoLoop::tell_end(int peer, GroupId number) {
  const auto ended = ended_.find(number);
  if (ended == ended_.end()) return;
  reach(peer, Channel::kControl);
  if (const auto& notice = ended->second) {
    send_control(peer, CtlStop{number, notice->origin, notice->reason, notice->signal});
  } else {
    send_control(peer, CtlBye{number, true});
  }
}

}  // namespace rookery
