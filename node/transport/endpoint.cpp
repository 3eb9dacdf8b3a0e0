#include "node/transport/endpoint.hpp"

#include <random>
#include <utility>

#include "node/transport/io_loop.hpp"

namespace rookery {
namespace {

std::uint64_t draw_nonce() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

Endpoint::Endpoint(EndpointOptions options)
    : loop_(std::make_shared<IoLoop>(std::move(options), draw_nonce())) {}

Endpoint::~Endpoint() {
  loop_->abandon();
}

std::string Endpoint::address() const {
  return loop_->address();
}

void Endpoint::start(std::vector<EndpointPeer> peers) {
  loop_->start(std::move(peers));
  thread_ = std::jthread([this] { loop_->run(); });
}

std::unique_ptr<ZmqLink> Endpoint::open(GroupOptions options) {
  return std::make_unique<ZmqLink>(loop_, loop_->open(std::move(options)));
}

}  // namespace rookery
