// Links of one process over loopback, each with an endpoint of its own, on ports that the system gives.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "models/base/libraries/format.hpp"
#include "node/transport/endpoint.hpp"

namespace rookery {

struct LoopbackOptions : EndpointOptions, GroupOptions {
  int rank = 0;
  int connections = 1;  // for data, with each peer
  const EndpointOptions& endpoint() const { return *this; }
  const GroupOptions& group_options() const { return *this; }
};

struct LoopbackPeer {
  int rank = 0;
  std::string node;
  std::string address;
};

inline std::string loopback_name(int rank) {
  return fmt::format("node_{}", rank);
}

inline LoopbackOptions loopback_options(int rank) {
  LoopbackOptions options;
  options.rank = rank;
  options.node = loopback_name(rank);
  options.address = "127.0.0.1:0";
  options.key = {"0123456789abcdef", "0123456789abcdef0123456789abcdef"};
  options.wait_for_peers = std::chrono::seconds(60);
  return options;
}

// A node with one group: its endpoint and its link in one.
class LoopbackLink final : public Link {
 public:
  // Listens.
  explicit LoopbackLink(LoopbackOptions options)
      : options_(std::move(options)), endpoint_(std::make_unique<Endpoint>(options_.endpoint())) {}
  // As a process does that is killed: without a word.
  ~LoopbackLink() override { endpoint_.reset(); }

  std::string address() const { return endpoint_->address(); }
  // Opens the group of these and this node, and waits for it.
  void join(const std::vector<LoopbackPeer>& peers) {
    begin_to_join(peers);
    join();
  }
  void join() { link_->join(); }
  void begin_to_join(const std::vector<LoopbackPeer>& peers) {
    std::vector<EndpointPeer> others;
    GroupOptions group = options_.group_options();
    group.members.resize(peers.size() + 1);
    group.members.at(options_.rank) = options_.node;
    for (const LoopbackPeer& peer : peers) {
      group.members.at(peer.rank) = peer.node;
      others.push_back({.node = peer.node, .address = peer.address, .connections = options_.connections});
    }
    endpoint_->start(std::move(others));
    link_ = endpoint_->open(std::move(group));
  }

  std::unique_ptr<PendingTransfer> begin_send(int to_rank, const MessageKey& key,
                                              ConstTensorView tensor) override {
    return link_->begin_send(to_rank, key, tensor);
  }
  std::unique_ptr<PendingTransfer> begin_receive(int from_rank, const MessageKey& key,
                                                 TensorView into) override {
    return link_->begin_receive(from_rank, key, into);
  }
  void flush() override { link_->flush(); }
  void leave() { link_->leave(); }
  void stop(const std::string& reason) { link_->stop(reason); }
  void tell_status(const RunStatus& status) { link_->tell_status(status); }
  std::optional<RunStatus> heard_status() const { return link_->heard_status(); }
  ZmqLink& network() { return *link_; }

 private:
  LoopbackOptions options_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<ZmqLink> link_;
};

// One that leaves in an orderly way when its Trainer has flushed, as a Node does.
template <typename Left>
class LeavingLink final : public Link {
 public:
  explicit LeavingLink(std::unique_ptr<Left> link) : link_(std::move(link)) {}

  std::unique_ptr<PendingTransfer> begin_send(int to_rank, const MessageKey& key,
                                              ConstTensorView tensor) override {
    return link_->begin_send(to_rank, key, tensor);
  }
  std::unique_ptr<PendingTransfer> begin_receive(int from_rank, const MessageKey& key,
                                                 TensorView into) override {
    return link_->begin_receive(from_rank, key, into);
  }
  void flush() override { link_->leave(); }

 private:
  std::unique_ptr<Left> link_;
};

inline std::vector<LoopbackPeer> peers_of(const std::vector<std::unique_ptr<LoopbackLink>>& links, int self) {
  std::vector<LoopbackPeer> peers;
  for (int rank = 0; rank < static_cast<int>(links.size()); ++rank) {
    if (rank != self) peers.push_back({rank, loopback_name(rank), links[rank]->address()});
  }
  return peers;
}

inline void join_all(const std::vector<std::unique_ptr<LoopbackLink>>& links) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < static_cast<int>(links.size()); ++rank) {
    threads.emplace_back([&links, rank] { links[rank]->join(peers_of(links, rank)); });
  }
}

// `change` may alter the options of every link.
template <typename Change>
std::vector<std::unique_ptr<LoopbackLink>> make_loopback(int ranks, Change change) {
  std::vector<std::unique_ptr<LoopbackLink>> links;
  for (int rank = 0; rank < ranks; ++rank) {
    LoopbackOptions options = loopback_options(rank);
    change(options);
    links.push_back(std::make_unique<LoopbackLink>(options));
  }
  join_all(links);
  return links;
}

}  // namespace rookery
