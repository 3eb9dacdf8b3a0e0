// ZmqLinks of one process over loopback, on ports that the system gives.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "node/transport/zmq_link.hpp"

namespace rookery {

inline ZmqLinkOptions loopback_options(int stage) {
  ZmqLinkOptions options;
  options.node = fmt::format("node_{}", stage);
  options.stage = stage;
  options.address = "127.0.0.1:0";
  options.key = {"0123456789abcdef", "0123456789abcdef0123456789abcdef"};
  options.wait_for_peers = std::chrono::seconds(60);
  return options;
}

inline std::vector<ZmqPeer> peers_of(const std::vector<std::unique_ptr<ZmqLink>>& links, int self) {
  std::vector<ZmqPeer> peers;
  for (int stage = 0; stage < static_cast<int>(links.size()); ++stage) {
    if (stage != self) peers.push_back({stage, fmt::format("node_{}", stage), links[stage]->address()});
  }
  return peers;
}

inline void join_all(const std::vector<std::unique_ptr<ZmqLink>>& links) {
  std::vector<std::jthread> threads;
  for (int stage = 0; stage < static_cast<int>(links.size()); ++stage) {
    threads.emplace_back([&links, stage] { links[stage]->join(peers_of(links, stage)); });
  }
}

// `change` may alter the options of every link.
template <typename Change>
std::vector<std::unique_ptr<ZmqLink>> make_loopback(int stages, Change change) {
  std::vector<std::unique_ptr<ZmqLink>> links;
  for (int stage = 0; stage < stages; ++stage) {
    ZmqLinkOptions options = loopback_options(stage);
    change(options);
    links.push_back(std::make_unique<ZmqLink>(options));
  }
  join_all(links);
  return links;
}

}  // namespace rookery
