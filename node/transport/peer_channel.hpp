// One channel to a peer, on which this node sends: a connection that this node opens, or, where the peer
// cannot be reached, the one that the peer has opened. Private to `IoLoop`.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "node/sockets/connector.hpp"
#include "node/sockets/router.hpp"
#include "node/transport/slow_network.hpp"

namespace rookery {

class PeerChannel {
 public:
  // On connections that this node opens.
  explicit PeerChannel(Connector connector) : connector_(std::move(connector)) {}
  // On connections that the peer opens to `router`, which outlives the channel.
  explicit PeerChannel(Router& router) : router_(&router) {}

  // None where the peer opens.
  Connector* connector() { return connector_ ? &*connector_ : nullptr; }

  // From here on what is sent goes through this network, which outlives the channel: it waits here until it
  // leaves, which is by send_due().
  void slow_down(SlowNetwork& network, bool is_control);
  // When that is due next; max(): nothing waits.
  Clock::time_point due() const;
  void send_due(Clock::time_point now);

  bool is_open() const { return connector_ ? connector_->is_open() : !connection_.empty(); }
  bool is_connected() const { return connector_ ? connector_->is_connected() : !connection_.empty(); }
  // Counts the connections up.
  std::uint32_t number() const { return connector_ ? connector_->number() : number_; }

  // Opens another connection; nothing where the peer does that.
  void open();
  // The peer has opened this one, by the router's id; where this node does that, nothing.
  void adopt(const std::string& connection);
  void close(std::chrono::milliseconds linger = std::chrono::milliseconds(0));

  // Queue a packet; never wait. Nothing happens when the channel is not open.
  void send(std::span<const std::byte> header);
  void send(const OutgoingChunk& chunk);

  // Returns what has become of the connection since the last call.
  Connector::News news();

 private:
  struct Waiting {
    Clock::time_point leaves;
    std::vector<std::byte> header;       // of a packet without payload
    std::optional<OutgoingChunk> chunk;  // or this
  };
  void send_now(std::span<const std::byte> header);
  void send_now(const OutgoingChunk& chunk);

  std::optional<Connector> connector_;
  Router* router_ = nullptr;
  std::string connection_;  // adopted; empty: none
  std::uint32_t number_ = 0;
  bool is_lost_ = false;
  SlowNetwork* network_ = nullptr;
  bool is_control_ = false;
  std::deque<Waiting> waiting_;
};

}  // namespace rookery
