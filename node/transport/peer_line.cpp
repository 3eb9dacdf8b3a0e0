#include "node/transport/peer_line.hpp"

#include <utility>

namespace rookery {

void PeerLine::open() {
  if (connector_) connector_->open();
}

void PeerLine::adopt(const std::string& connection) {
  if (connector_) return;
  connection_ = connection;
  is_lost_ = false;
  ++number_;
}

void PeerLine::close(std::chrono::milliseconds linger) {
  if (connector_) connector_->close(linger);
  connection_.clear();
}

void PeerLine::send(std::span<const std::byte> header) {
  if (connector_) return connector_->send(header);
  if (!connection_.empty() && !router_->send(connection_, header)) is_lost_ = true;
}

void PeerLine::send(const OutgoingChunk& chunk) {
  if (connector_) return connector_->send(chunk);
  if (!connection_.empty() && !router_->send(connection_, chunk)) is_lost_ = true;
}

Connector::News PeerLine::news() {
  if (connector_) return connector_->news();
  return std::exchange(is_lost_, false) ? Connector::News::kClosed : Connector::News::kNone;
}

}  // namespace rookery
