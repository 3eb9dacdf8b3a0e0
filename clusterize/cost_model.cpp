#include "clusterize/cost_model.hpp"

#include <algorithm>
#include <numeric>

#include "models/base/check.hpp"
#include "trainer/schedule/schedule.hpp"

namespace rookery {
namespace {

constexpr double kBytesPerGb = 1e9;
constexpr double kUpdateFlopsPerParameter = 16;

double bytes_per_second(double mbps) {
  return mbps * 1e6 / 8;
}

double seconds(double milliseconds) {
  return milliseconds / 1e3;
}

}  // namespace

CostModel::CostModel(const NodePool& pool, const ModelCosts& costs) : pool_(pool), costs_(costs) {
  const std::size_t count = pool.nodes().size();
  links_.resize(count * count);
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      if (a != b) links_[a * count + b] = pool.link(a, b);
    }
  }
  whole_bytes_ = static_cast<double>(costs.memory(0, costs.count(), 1));
  // Gradient and value, from one neighbour and to the other, twice each (transport_bytes()).
  for (const SharedBytes& shared : costs.shared) shared_bytes_ += 8 * shared.bytes;
}

const LinkSpeed& CostModel::link(int a, int b) const {
  return links_[static_cast<std::size_t>(a) * pool_.nodes().size() + static_cast<std::size_t>(b)];
}

double CostModel::flops_per_second(int node) const {
  return 1e9 * pool_.nodes()[static_cast<std::size_t>(node)].gflops.value_or(kAssumedGflops);
}

const ClusterCost& CostModel::cluster(const std::vector<int>& members) {
  const auto found = known_.find(members);
  if (found != known_.end()) return found->second;
  return known_.emplace(members, evaluate(members)).first->second;
}

CutMachine CostModel::machine(const std::vector<int>& members, std::size_t stage) const {
  const int node = members[stage];
  CutMachine machine{.flops_per_second = flops_per_second(node),
                     .memory_bytes = kBytesPerGb * pool_.nodes()[static_cast<std::size_t>(node)].ram_gb};
  // A stage keeps no more per micro-batch in flight than the whole model does, so where that fits
  // many times over, nothing needs to be measured.
  const auto slots = static_cast<double>(std::min<std::size_t>(members.size(), costs_.micro_batches));
  if ((slots + 1) * whole_bytes_ + shared_bytes_ <= machine.memory_bytes)
    machine.memory_bytes = std::numeric_limits<double>::infinity();
  if (stage + 1 < members.size())
    machine.next_bytes_per_second = bytes_per_second(link(node, members[stage + 1]).bandwidth_mbps);
  return machine;
}

ClusterCost CostModel::evaluate(const std::vector<int>& members) const {
  std::vector<CutMachine> machines;
  for (std::size_t stage = 0; stage < members.size(); ++stage) machines.push_back(machine(members, stage));
  const std::optional<InnerCut> cut = inner_cut(costs_, machines);
  if (!cut) return {.fits = false, .shortfall = shortfall(members)};
  ClusterCost cost{.fits = true, .cut = *cut};
  add_times(members, cost);
  return cost;
}

double CostModel::shortfall(const std::vector<int>& members) const {
  double memory = 0;
  for (const int node : members) memory += kBytesPerGb * pool_.nodes()[static_cast<std::size_t>(node)].ram_gb;
  const double too_many = std::max(0.0, static_cast<double>(members.size()) - costs_.count());
  return 1 + too_many + std::max(0.0, whole_bytes_ - memory) / whole_bytes_;
}

void CostModel::add_times(const std::vector<int>& members, ClusterCost& cost) const {
  double round_trip = 0;
  double period = cost.cut.bottleneck;
  double update = 0;
  double from_before = 0;  // bytes of activations that the stage gets
  double back_before = 0;  // bytes of gradients that it sends back
  for (std::size_t stage = 0; stage < members.size(); ++stage) {
    const bool last = stage + 1 == members.size();
    const int begin = cost.cut.begins[stage];
    const int end = last ? costs_.count() : cost.cut.begins[stage + 1];
    const double speed = flops_per_second(members[stage]);
    StageTimes times{.forward = forward_seconds(costs_, begin, end, speed),
                     .backward = backward_seconds(costs_, begin, end, speed)};
    double activations = 0;
    double gradients = 0;
    if (!last) {
      const Segment& next = costs_.segments[static_cast<std::size_t>(end)];
      const LinkSpeed& way = link(members[stage], members[stage + 1]);
      activations = next.activation_bytes;
      gradients = next.gradient_bytes;
      times.send = seconds(way.latency_ms) + activations / bytes_per_second(way.bandwidth_mbps);
      round_trip += times.send + seconds(way.latency_ms) + gradients / bytes_per_second(way.bandwidth_mbps);
    }
    std::int64_t parameters = 0;
    for (int i = begin; i < end; ++i) parameters += costs_.segments[static_cast<std::size_t>(i)].parameters;
    update = std::max(update, kUpdateFlopsPerParameter * static_cast<double>(parameters) / speed);
    const double connection =
        bytes_per_second(pool_.nodes()[static_cast<std::size_t>(members[stage])].bandwidth_mbps);
    period = std::max(period, std::max(activations + back_before, from_before + gradients) / connection);
    round_trip += times.forward + times.backward;
    from_before = activations;
    back_before = gradients;
    cost.stages.push_back(times);
  }
  const int in_flight_most =
      in_flight(make_schedule(costs_.schedule, 0, static_cast<int>(members.size()), costs_.micro_batches));
  period = std::max(period, round_trip / in_flight_most);
  cost.step_seconds =
      round_trip + (costs_.micro_batches - 1) * period + update + exchange_seconds(members, cost.cut.begins);
}

// Shared parameters follow each other, so that their bytes add up and their latencies do not. What
// clipping sums up runs along with the backward passes; the norm comes back from the first stage.
double CostModel::exchange_seconds(const std::vector<int>& members, const std::vector<int>& begins) const {
  double transfers = 0;
  double latency = 0;
  for (const SharedBytes& shared : costs_.shared) {
    double way = 0;
    std::size_t before = begins.size();
    for (const int segment : shared.segments) {
      const auto stage =
          static_cast<std::size_t>(std::ranges::upper_bound(begins, segment) - begins.begin()) - 1;
      if (before < stage) {
        const LinkSpeed& hop = link(members[before], members[stage]);
        way += 2 * seconds(hop.latency_ms);
        transfers += 2 * shared.bytes / bytes_per_second(hop.bandwidth_mbps);
      }
      before = stage;
    }
    latency = std::max(latency, way);
  }
  double norm = 0;
  for (std::size_t stage = 1; costs_.clips_gradients && stage < members.size(); ++stage)
    norm = std::max(norm, seconds(link(members[0], members[stage]).latency_ms));
  return transfers + latency + norm;
}

double CostModel::averaging_seconds(const std::vector<std::vector<int>>& clusters) {
  const auto count = static_cast<double>(clusters.size());
  if (clusters.size() < 2) return 0;
  std::vector<std::size_t> stage(clusters.size(), 0);
  std::vector<double> load(pool_.nodes().size(), 0);  // bytes of the rings on a node
  std::vector<int> ring;                              // its nodes, by cluster
  double ring_bytes = 0;
  double slowest = 0;
  const auto close_ring = [&] {
    for (std::size_t i = 0; i < ring.size() && ring_bytes > 0; ++i) {
      const LinkSpeed& way = link(ring[i], ring[(i + 1) % ring.size()]);
      const double message = ring_bytes / count / bytes_per_second(way.bandwidth_mbps);
      slowest = std::max(slowest, 2 * (count - 1) * (seconds(way.latency_ms) + message));
      load[static_cast<std::size_t>(ring[i])] += ring_bytes;
    }
    ring_bytes = 0;
  };
  for (int segment = 0; segment < costs_.count(); ++segment) {
    std::vector<int> nodes;
    for (std::size_t c = 0; c < clusters.size(); ++c) {
      const std::vector<int>& begins = cluster(clusters[c]).cut.begins;
      if (stage[c] + 1 < begins.size() && begins[stage[c] + 1] == segment) ++stage[c];
      nodes.push_back(clusters[c][stage[c]]);
    }
    if (nodes != ring) {
      close_ring();
      ring = nodes;
    }
    ring_bytes += static_cast<double>(costs_.segments[static_cast<std::size_t>(segment)].parameter_bytes);
  }
  close_ring();
  for (std::size_t node = 0; node < load.size(); ++node) {
    const double connection = bytes_per_second(pool_.nodes()[node].bandwidth_mbps);
    slowest = std::max(slowest, 2 * (count - 1) / count * load[node] / connection);
  }
  return slowest;
}

double CostModel::samples_per_second(const std::vector<std::vector<int>>& clusters) {
  double step = 0;
  for (const std::vector<int>& members : clusters) step = std::max(step, cluster(members).step_seconds);
  return static_cast<double>(costs_.batch_size) * static_cast<double>(clusters.size()) /
         (step + averaging_seconds(clusters));
}

double CostModel::bound_samples_per_second() const {
  double speed = 0;
  for (int node = 0; node < nodes(); ++node) speed += flops_per_second(node);
  double flops = 0;
  for (const Segment& segment : costs_.segments) flops += segment.forward_flops + segment.backward_flops;
  return static_cast<double>(costs_.batch_size) / costs_.micro_batches * speed / flops;
}

bool CostModel::interchangeable(int a, int b) const {
  const PoolNode& one = pool_.nodes()[static_cast<std::size_t>(a)];
  const PoolNode& other = pool_.nodes()[static_cast<std::size_t>(b)];
  if (one.ram_gb != other.ram_gb || one.bandwidth_mbps != other.bandwidth_mbps || one.gflops != other.gflops)
    return false;
  for (int x = 0; x < nodes(); ++x) {
    if (x != a && x != b && link(a, x) != link(b, x)) return false;
  }
  return true;
}

}  // namespace rookery
