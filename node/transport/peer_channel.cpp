#include "node/transport/peer_channel.hpp"

#include <utility>

namespace rookery {

void PeerChannel::open() {
  if (connector_) connector_->open();
}

void PeerChannel::adopt(const std::string& connection) {
  if (connector_) return;
  connection_ = connection;
  is_lost_ = false;
  ++number_;
}

// What may still leave does so at once.
void PeerChannel::close(std::chrono::milliseconds linger) {
  if (linger.count() > 0) send_due(Clock::time_point::max());
  waiting_.clear();
  if (connector_) connector_->close(linger);
  connection_.clear();
}

void PeerChannel::slow_down(SlowNetwork& network, bool is_control) {
  network_ = &network;
  is_control_ = is_control;
}

Clock::time_point PeerChannel::due() const {
  return waiting_.empty() ? Clock::time_point::max() : waiting_.front().leaves;
}

void PeerChannel::send_due(Clock::time_point now) {
  for (; !waiting_.empty() && waiting_.front().leaves <= now; waiting_.pop_front()) {
    const Waiting& first = waiting_.front();
    first.chunk ? send_now(*first.chunk) : send_now(first.header);
  }
}

void PeerChannel::send(std::span<const std::byte> header) {
  if (network_ == nullptr) return send_now(header);
  if (!is_open()) return;
  waiting_.push_back({.leaves = network_->leaves(Clock::now(), header.size(), is_control_),
                      .header = {header.begin(), header.end()},
                      .chunk = std::nullopt});
}

void PeerChannel::send(const OutgoingChunk& chunk) {
  if (network_ == nullptr) return send_now(chunk);
  if (!is_open()) return;
  const std::size_t bytes = chunk.header.size() + chunk.payload.size();
  waiting_.push_back(
      {.leaves = network_->leaves(Clock::now(), bytes, is_control_), .header = {}, .chunk = chunk});
}

void PeerChannel::send_now(std::span<const std::byte> header) {
  if (connector_) return connector_->send(header);
  if (!connection_.empty() && !router_->send(connection_, header)) is_lost_ = true;
}

void PeerChannel::send_now(const OutgoingChunk& chunk) {
  if (connector_) return connector_->send(chunk);
  if (!connection_.empty() && !router_->send(connection_, chunk)) is_lost_ = true;
}

Connector::News PeerChannel::news() {
  if (connector_) return connector_->news();
  return std::exchange(is_lost_, false) ? Connector::News::kClosed : Connector::News::kNone;
}

}  // namespace rookery
