// Endpoints of one process that know each other, and groups of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "tests/node/transport/loopback.hpp"
#include "tests/node/transport/message_keys.hpp"

namespace rookery {

constexpr GroupId kPipeline = 0;
constexpr GroupId kRing = 7;

template <typename Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Nodes that know each other.
class Endpoints {
 public:
  using Knows = std::function<bool(int node, int peer)>;

  explicit Endpoints(
      int nodes, const std::function<void(EndpointOptions&)>& change = {},
      Knows knows = [](int, int) { return true; })
      : knows_(std::move(knows)) {
    for (int i = 0; i < nodes; ++i) {
      EndpointOptions options = loopback_options(i).endpoint();
      if (change) change(options);
      options_.push_back(options);
      endpoints_.push_back(std::make_unique<Endpoint>(options));
    }
    for (const auto& endpoint : endpoints_) addresses_.push_back(endpoint->address());
    for (int i = 0; i < nodes; ++i) start(i);
  }

  // As when its process is killed and another one started; the others still have its former address.
  void restart(int node) {
    endpoints_[node].reset();
    endpoints_[node] = std::make_unique<Endpoint>(options_[node]);
    start(node);
  }

  // The group of these nodes: their links, by rank, none of which was waited for.
  std::vector<std::unique_ptr<ZmqLink>> open(GroupId number, const std::vector<int>& nodes,
                                             const std::function<void(GroupOptions&)>& change = {}) {
    GroupOptions options;
    options.group = number;
    options.priority = number == kPipeline ? kPipelinePriority : kRingPriority;
    options.wait_for_peers = std::chrono::seconds(60);
    for (const int node : nodes) options.members.push_back(loopback_name(node));
    if (change) change(options);
    std::vector<std::unique_ptr<ZmqLink>> links;
    for (const int node : nodes) links.push_back(endpoints_[node]->open(options));
    return links;
  }
  std::vector<std::unique_ptr<ZmqLink>> gather(GroupId number, const std::vector<int>& nodes,
                                               const std::function<void(GroupOptions&)>& change = {}) {
    auto links = open(number, nodes, change);
    for (const auto& link : links) link->join();
    return links;
  }
  // As its peers call it.
  std::string name(int node) const { return fmt::format("{} ({})", loopback_name(node), addresses_[node]); }
  std::unique_ptr<Endpoint>& operator[](int node) { return endpoints_[node]; }

 private:
  void start(int node) {
    std::vector<EndpointPeer> peers;
    for (int peer = 0; peer < static_cast<int>(endpoints_.size()); ++peer) {
      if (peer == node || !knows_(node, peer)) continue;
      const auto& network = options_[node].slow_network;
      peers.push_back({.node = loopback_name(peer),
                       .address = addresses_[peer],
                       .reachable = options_[peer].reachable,
                       .on_same_machine = network && network == options_[peer].slow_network});
    }
    endpoints_[node]->start(std::move(peers));
  }

  Knows knows_;
  std::vector<EndpointOptions> options_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<std::string> addresses_;  // that the plan would give
};

inline void leave_all(std::vector<std::unique_ptr<ZmqLink>>& links) {
  std::vector<std::jthread> threads;
  for (const auto& link : links) threads.emplace_back([&link] { link->leave(); });
}

}  // namespace rookery
