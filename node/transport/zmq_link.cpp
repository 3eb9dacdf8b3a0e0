#include "node/transport/zmq_link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <zmq.hpp>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "node/sockets/address.hpp"
#include "node/sockets/listener.hpp"
#include "node/transport/io_loop.hpp"
#include "node/transport/link_queues.hpp"

namespace rookery {
namespace {

std::uint64_t draw_nonce() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

// Members are made and end in this order: the thread ends first, then sockets, then the context.
struct ZmqLink::Impl {
  explicit Impl(ZmqLinkOptions given)
      : options(std::move(given)),
        context(1),
        listener(
            options.node, Address::parse(options.address),
            fmt::format("give {} another port in node_configs.json and run clusterize again", options.node)) {
    const std::uint64_t message = message_cost(options.max_message_bytes, kMaxChunkBytes);
    options.send_budget = std::max(options.send_budget, message);
    options.receive_budget = std::max(options.receive_budget, message);
  }

  ~Impl() {
    if (queues) queues->abandon();
  }

  int peer_of(int stage) const {
    const auto peer =
        std::find_if(peers.begin(), peers.end(), [&](const ZmqPeer& p) { return p.stage == stage; });
    ROOKERY_CHECK(queues && peer != peers.end(), "stage {} is no joined peer of {}", stage, options.node);
    return static_cast<int>(peer - peers.begin());
  }

  // What the compute thread does while it would only wait.
  LinkQueues::Meanwhile doing_io() {
    return [this](const std::function<bool()>& ready, Clock::time_point deadline) {
      loop->drive(ready, deadline);
    };
  }

  ZmqLinkOptions options;
  zmq::context_t context;
  Listener listener;
  std::vector<ZmqPeer> peers;
  std::unique_ptr<LinkQueues> queues;
  std::unique_ptr<IoLoop> loop;
  std::jthread thread;
};

ZmqLink::ZmqLink(ZmqLinkOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

ZmqLink::~ZmqLink() = default;

std::string ZmqLink::address() const {
  return impl_->listener.address().to_string();
}

void ZmqLink::join(const std::vector<ZmqPeer>& peers) {
  Impl& impl = *impl_;
  ROOKERY_CHECK(!impl.queues, "{} has joined already", impl.options.node);
  impl.peers = peers;
  std::vector<std::string> names;
  for (const ZmqPeer& peer : peers) names.push_back(fmt::format("{} ({})", peer.node, peer.address));
  impl.queues = std::make_unique<LinkQueues>(names, impl.options.send_budget, impl.options.receive_budget / 8,
                                             kMaxChunkBytes, impl.options.deadline);
  impl.loop = std::make_unique<IoLoop>(impl.context, impl.listener, impl.options, impl.peers, *impl.queues,
                                       draw_nonce());
  impl.thread = std::jthread([&impl] { impl.loop->run(); });
  impl.queues->wait_begun();
}

void ZmqLink::send(int to_stage, const MessageKey& key, ConstTensorView tensor) {
  const int peer = impl_->peer_of(to_stage);
  const std::size_t size = tensor.type.bytes();
  if (size > impl_->options.max_message_bytes) {
    throw TransportError(fmt::format("sending {}: {} has {} bytes, a message of this plan at most {}",
                                     to_string(key), tensor.type.to_string(), size,
                                     impl_->options.max_message_bytes));
  }
  OutgoingMessage message{key, tensor.type, impl_->options.buffers.take(size)};
  if (size != 0) std::memcpy(message.bytes.get(), tensor.data, size);
  impl_->queues->put(peer, std::move(message), impl_->doing_io());
  impl_->loop->serve();
}

void ZmqLink::receive(int from_stage, const MessageKey& key, TensorView into) {
  const int peer = impl_->peer_of(from_stage);
  const IncomingMessage message = impl_->queues->take(peer, key, impl_->doing_io());
  if (message.type != into.type) {
    throw TransportError(fmt::format("receiving {}: {} ({}) sent {}, this stage expects {}", to_string(key),
                                     impl_->peers[peer].node, impl_->peers[peer].address,
                                     message.type.to_string(), into.type.to_string()));
  }
  copy(ConstTensorView{message.type, message.bytes.get()}, into);
}

void ZmqLink::flush() {
  ROOKERY_CHECK(impl_->queues, "{} has not joined", impl_->options.node);
  impl_->queues->wait_flushed(impl_->doing_io());
}

void ZmqLink::leave() {
  flush();
  impl_->queues->wait_left(impl_->doing_io());
}

void ZmqLink::stop(const std::string& reason) {
  if (impl_->queues) impl_->queues->want_stop({impl_->options.node, reason});
}

void ZmqLink::tell_status(const RunStatus& status) {
  if (impl_->queues) {
    impl_->queues->tell_status({status.epoch, status.step, status.loss, status.accuracy.value_or(-1)});
  }
}

std::optional<RunStatus> ZmqLink::heard_status() const {
  const auto heard = impl_->queues ? impl_->queues->heard_status() : std::nullopt;
  if (!heard) return std::nullopt;
  RunStatus status{heard->epoch, heard->step, heard->loss, std::nullopt};
  if (heard->accuracy >= 0) status.accuracy = heard->accuracy;
  return status;
}

}  // namespace rookery
