#include "node/run/run_network.hpp"

#include <algorithm>
#include <utility>

#include "models/base/process/stop_signals.hpp"
#include "node/run/link_options.hpp"
#include "node/run/ring_groups.hpp"
#include "trainer/memory_link.hpp"

namespace rookery {

RunNetwork::RunNetwork(const NodeOptions& options, const NodeMetadata& metadata, const Stage& stage)
    : peers_(endpoint_peers(metadata)),
      encoding_(edge_encoding(metadata)),
      reconstructions_(reconstructions_of(metadata, stage)),
      stage_(metadata.stage) {
  if (metadata.stages == 1) {
    pipeline_ = std::move(make_memory_links(1, std::chrono::milliseconds(0)).front());
  } else {
    groups_.push_back(pipeline_options(options, metadata, stage));
  }
  for (NodeRing& ring : rings_of(metadata, stage)) {
    groups_.push_back(ring_options(options, metadata, ring));
    rings_.push_back({.id = ring.id,
                      .parameters = std::move(ring.parameters),
                      .under_way = ring.under_way,
                      .link = nullptr});
  }
  if (auto roots = roots_options(options, metadata)) groups_.push_back(*std::move(roots));
  for (const GroupOptions& group : groups_) buffer_bytes_ += static_cast<std::int64_t>(group.buffers.bytes());
  for (const auto& [name, view] : reconstructions())
    buffer_bytes_ += static_cast<std::int64_t>(view.type.bytes());
  if (peers_.empty()) return;
  catch_stop_signals();
  EndpointOptions made = endpoint_options(options, metadata);
  made.stop_descriptor = stop_descriptor();
  endpoint_.emplace(std::move(made));
}

std::map<std::string, TensorView> RunNetwork::reconstructions() {
  return reconstructions_ ? reconstructions_->state() : std::map<std::string, TensorView>();
}

void RunNetwork::begin_run(std::int64_t steps_ahead) {
  if (reconstructions_) reconstructions_->begin_run(steps_ahead);
}

// All are opened before any is waited for: so nobody waits for a group that waits for another one.
void RunNetwork::join() {
  if (!endpoint_) return;
  endpoint_->start(std::move(peers_));
  std::vector<ZmqLink*> links;
  for (GroupOptions& group : groups_) {
    const GroupId number = group.group;
    auto link = endpoint_->open(std::move(group));
    links.push_back(link.get());
    const auto ring =
        std::ranges::find_if(rings_, [&](const OpenedRing& each) { return ring_group(each.id) == number; });
    if (number == kPipelineGroup) {
      network_ = link.get();
      pipeline_ = std::move(link);
      if (encoding_.is_lossy())
        compressed_.emplace(*pipeline_, stage_, encoding_, reconstructions_ ? &*reconstructions_ : nullptr);
    } else if (ring != rings_.end()) {
      ring->link = std::move(link);
    } else {
      roots_ = std::move(link);
    }
  }
  groups_.clear();
  for (ZmqLink* link : links) link->join();
}

// In an order that is the same on all nodes, so that no circle of them waits for each other. As long as any
// group of its is left, a node's failing is heard in its pipeline.
void RunNetwork::leave() {
  if (roots_ != nullptr) roots_->leave();
  std::for_each(rings_.rbegin(), rings_.rend(), [](const OpenedRing& ring) { ring.link->leave(); });
  if (network_ != nullptr) network_->leave();
}

void RunNetwork::stop(const std::string& reason) {
  for (ZmqLink* link : {network_, rings_.empty() ? nullptr : rings_.front().link.get(), roots_.get()}) {
    if (link != nullptr) return link->stop(reason);
  }
}

}  // namespace rookery
