#include "clusterize/simulation/flow_network.hpp"

#include <algorithm>
#include <utility>

#include "models/base/check.hpp"

namespace rookery {

FlowNetwork::FlowNetwork(std::vector<double> connections, std::vector<FlowWay> ways)
    : ways_(std::move(ways)),
      connections_(std::move(connections)),
      flows_(ways_.size()),
      out_left_(connections_.size()),
      in_left_(connections_.size()),
      out_ways_(connections_.size()),
      in_ways_(connections_.size()) {}

void FlowNetwork::send(double now, std::size_t way, int message, double bytes) {
  now_ = now;
  Flow& flow = flows_.at(way);
  flow.queue.push_back({message, bytes});
  if (flow.queue.size() == 1) {
    active_.push_back(way);
    start(way);
  }
}

void FlowNetwork::start(std::size_t way) {
  Flow& flow = flows_[way];
  flow.left = flow.queue.front().bytes;
  flow.since = flow.begin = now_;
  flow.rate = 0;
  changed_ = true;
}

double FlowNetwork::next() {
  if (changed_) share();
  double first = kNever;
  for (const std::size_t way : active_) first = std::min(first, flows_[way].done);
  return first;
}

FlowNetwork::Departure FlowNetwork::take() {
  now_ = next();
  ROOKERY_CHECK(now_ < kNever, "no message is under way");
  const auto at =
      std::ranges::find_if(active_, [&](std::size_t active) { return flows_[active].done == now_; });
  const std::size_t way = *at;
  Flow& flow = flows_[way];
  const Departure departure{flow.queue.front().id, way, flow.begin};
  flow.queue.pop_front();
  flow.done = kNever;
  changed_ = true;
  if (flow.queue.empty()) {
    active_.erase(at);
  } else {
    start(way);
  }
  return departure;
}

double FlowNetwork::share_of(const FlowWay& way) const {
  const auto from = static_cast<std::size_t>(way.from);
  const auto to = static_cast<std::size_t>(way.to);
  return std::min({way.bytes_per_second, out_left_[from] / out_ways_[from], in_left_[to] / in_ways_[to]});
}

// Progressive filling: the ways with the smallest share get it, and the others share what is left.
void FlowNetwork::share() {
  constexpr double kRounding = 1 + 1e-12;
  changed_ = false;
  out_left_ = in_left_ = connections_;
  std::ranges::fill(out_ways_, 0);
  std::ranges::fill(in_ways_, 0);
  for (const std::size_t way : active_) {
    ++out_ways_[ways_[way].from];
    ++in_ways_[ways_[way].to];
  }
  open_ = active_;
  while (!open_.empty()) {
    double least = kNever;
    for (const std::size_t way : open_) least = std::min(least, share_of(ways_[way]));
    const auto behind = std::partition(open_.begin(), open_.end(), [&](std::size_t way) {
      return share_of(ways_[way]) > least * kRounding;
    });
    for (auto it = behind; it != open_.end(); ++it) {
      const std::size_t way = *it;
      const auto from = static_cast<std::size_t>(ways_[way].from);
      const auto to = static_cast<std::size_t>(ways_[way].to);
      out_left_[from] -= least;
      in_left_[to] -= least;
      --out_ways_[from];
      --in_ways_[to];
      Flow& flow = flows_[way];
      if (flow.rate == least) continue;
      flow.left = std::max(0.0, flow.left - flow.rate * (now_ - flow.since));
      flow.since = now_;
      flow.rate = least;
      flow.done = now_ + flow.left / least;
    }
    open_.erase(behind, open_.end());
  }
}

}  // namespace rookery
