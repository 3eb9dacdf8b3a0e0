#include "clusterize/cost_model.hpp"

#include <algorithm>
#include <numeric>

#include "clusterize/kinds.hpp"
#include "models/base/check.hpp"

namespace rookery {
namespace {

constexpr double kBytesPerGb = 1e9;

double bytes_per_second(double mbps) {
  return mbps * 1e6 / 8;
}

}  // namespace

CostModel::CostModel(const NodePool& pool, const ModelCosts& costs, const std::set<int>& special)
    : pool_(pool), sums_(costs), kinds_(kinds_of(pool, special)) {
  whole_bytes_ = least_bytes_ = static_cast<double>(costs.memory(0, costs.count(), 1));
  if (costs.may_recompute) least_bytes_ = static_cast<double>(costs.recomputed_memory(0, costs.count(), 1));
  // Gradient and value, from one neighbour and to the other, twice each (transport_bytes()).
  for (const SharedBytes& shared : costs.shared) shared_bytes_ += 8 * shared.bytes;
}

double CostModel::flops_per_second(int node) const {
  return 1e9 * pool_.nodes()[static_cast<std::size_t>(node)].gflops.value_or(kAssumedGflops);
}

double CostModel::ram_bytes(int node) const {
  return kBytesPerGb * pool_.nodes()[static_cast<std::size_t>(node)].ram_gb;
}

CutWay CostModel::way(int from, int to) const {
  const LinkSpeed link = pool_.link(static_cast<std::size_t>(from), static_cast<std::size_t>(to));
  return {.latency = link.latency_ms / 1e3, .bytes_per_second = bytes_per_second(link.bandwidth_mbps)};
}

CutMachine CostModel::machine(int node, std::size_t stages) const {
  CutMachine machine{
      .flops_per_second = flops_per_second(node),
      .memory_bytes = ram_bytes(node),
      .bytes_per_second = bytes_per_second(pool_.nodes()[static_cast<std::size_t>(node)].bandwidth_mbps)};
  // A stage keeps no more per micro-batch in flight than the whole model does, so where that fits
  // many times over, nothing needs to be measured.
  const auto slots = static_cast<double>(std::min<std::size_t>(stages, costs().micro_batches));
  if ((slots + 1) * whole_bytes_ + shared_bytes_ <= machine.memory_bytes)
    machine.memory_bytes = std::numeric_limits<double>::infinity();
  return machine;
}

std::size_t CostModel::Hash::operator()(const std::vector<int>& nodes) const {
  std::uint64_t hash = nodes.size();
  for (const int node : nodes) {
    hash = (hash ^ static_cast<std::uint64_t>(node)) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29U;
  }
  return hash;
}

const ClusterCost& CostModel::cluster(const std::vector<int>& members) const {
  return known_.get(kinds(members), [&] { return evaluate(members); });
}

std::vector<int> CostModel::kinds(const std::vector<int>& members) const {
  std::vector<int> kinds;
  kinds.reserve(members.size());
  for (const int node : members) kinds.push_back(kind(node));
  return kinds;
}

const InnerCut* CostModel::cut(const std::vector<int>& members, const std::vector<int>& begins) const {
  std::vector<int> key = kinds(members);
  key.insert(key.end(), begins.begin(), begins.end());
  const ClusterCost& cost = known_cuts_.get(key, [&] { return evaluate(members, begins); });
  return cost.fits() ? &cost.cuts.front() : nullptr;
}

// All cuts, or the one that begins so.
ClusterCost CostModel::evaluate(const std::vector<int>& members, const std::vector<int>& begins) const {
  if (std::ssize(members) > costs().count()) return {.shortfall = shortfall(members)};
  InnerCutter cutter(sums_, static_cast<int>(members.size()));
  for (std::size_t stage = 0; stage < members.size(); ++stage) {
    const int node = members[stage];
    const std::optional<int> end =
        stage + 1 < begins.size() ? std::optional(begins[stage + 1]) : std::nullopt;
    cutter.push(machine(node, members.size()), stage > 0 ? way(members[stage - 1], node) : CutWay(), end);
    if (!cutter.fits()) return {.shortfall = shortfall(members)};
  }
  ClusterCost cost{.cuts = cutter.cuts()};
  for (InnerCut& cut : cost.cuts) cut.step_seconds += exchange_seconds(members, cut.begins);
  std::ranges::stable_sort(cost.cuts, {}, &InnerCut::step_seconds);
  return cost;
}

double CostModel::shortfall(const std::vector<int>& members) const {
  double memory = 0;
  for (const int node : members) memory += ram_bytes(node);
  const double too_many = std::max(0.0, static_cast<double>(members.size()) - costs().count());
  return 1 + too_many + std::max(0.0, least_bytes_ - memory) / least_bytes_;
}

std::vector<StageTimes> CostModel::stage_times(const std::vector<int>& members, const InnerCut& cut) const {
  std::vector<StageTimes> all;
  for (std::size_t stage = 0; stage < members.size(); ++stage) {
    const bool last = stage + 1 == members.size();
    const int begin = cut.begins[stage];
    const int end = last ? costs().count() : cut.begins[stage + 1];
    const double speed = flops_per_second(members[stage]);
    StageTimes times{.forward = forward_seconds(costs(), begin, end, speed),
                     .backward = backward_seconds(costs(), begin, end, speed),
                     .update = update_seconds(costs(), begin, end, speed)};
    if (cut.recompute[stage]) times.backward += times.forward;
    if (!last) {
      const CutWay next = way(members[stage], members[stage + 1]);
      times.send = next.latency +
                   costs().segments[static_cast<std::size_t>(end)].activation_bytes / next.bytes_per_second;
    }
    all.push_back(times);
  }
  return all;
}

// Shared parameters follow each other, so that their bytes add up and their latencies do not. What
// clipping sums up runs along with the backward passes; the norm comes back from the first stage.
double CostModel::exchange_seconds(const std::vector<int>& members, const std::vector<int>& begins) const {
  double transfers = 0;
  double latency = 0;
  for (const SharedBytes& shared : costs().shared) {
    double hops = 0;
    std::size_t before = begins.size();
    for (const int segment : shared.segments) {
      const auto stage =
          static_cast<std::size_t>(std::ranges::upper_bound(begins, segment) - begins.begin()) - 1;
      if (before < stage) {
        const CutWay hop = way(members[before], members[stage]);
        hops += 2 * hop.latency;
        transfers += 2 * shared.bytes / hop.bytes_per_second;
      }
      before = stage;
    }
    latency = std::max(latency, hops);
  }
  double norm = 0;
  for (std::size_t stage = 1; costs().clips_gradients && stage < members.size(); ++stage)
    norm = std::max(norm, way(members[0], members[stage]).latency);
  return transfers + latency + norm;
}

template <typename Visit>
void CostModel::for_each_ring(const Clusters& clusters, const std::vector<const InnerCut*>& cuts,
                              const Visit& visit) const {
  std::vector<int> begins;
  for (const InnerCut* cut : cuts) begins.insert(begins.end(), cut->begins.begin(), cut->begins.end());
  std::ranges::sort(begins);
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  std::vector<std::size_t> stage(clusters.size(), 0);
  std::vector<int> nodes(clusters.size());
  for (std::size_t ring = 0; ring < begins.size(); ++ring) {
    const auto end = ring + 1 < begins.size() ? begins[ring + 1] : costs().count();
    const double bytes = sums_.parameter_bytes[static_cast<std::size_t>(end)] -
                         sums_.parameter_bytes[static_cast<std::size_t>(begins[ring])];
    for (std::size_t c = 0; c < clusters.size(); ++c) {
      const std::vector<int>& own = cuts[c]->begins;
      while (stage[c] + 1 < own.size() && own[stage[c] + 1] <= begins[ring]) ++stage[c];
      nodes[c] = clusters[c][stage[c]];
    }
    if (bytes > 0) visit(nodes, bytes);
  }
}

double CostModel::averaging_seconds(const Clusters& clusters,
                                    const std::vector<const InnerCut*>& cuts) const {
  const auto count = static_cast<double>(clusters.size());
  if (clusters.size() < 2) return 0;
  double message = 0;  // the slowest
  for_each_ring(clusters, cuts, [&](const std::vector<int>& nodes, double bytes) {
    for (std::size_t c = 0; c < nodes.size(); ++c) {
      const CutWay edge = way(nodes[c], nodes[(c + 1) % nodes.size()]);
      message = std::max(message, edge.latency + bytes / count / edge.bytes_per_second);
    }
  });
  for (const InnerCut* cut : cuts) message = std::max(message, cut->load_seconds / count);
  return 2 * (count - 1) * message;
}

std::vector<std::vector<double>> CostModel::ring_ways(const Clusters& clusters,
                                                      const std::vector<const InnerCut*>& cuts) const {
  const auto count = static_cast<double>(clusters.size());
  std::vector<std::vector<double>> ways(clusters.size(), std::vector<double>(clusters.size(), 0));
  for_each_ring(clusters, cuts, [&](const std::vector<int>& nodes, double bytes) {
    for (std::size_t a = 0; a < nodes.size(); ++a) {
      for (std::size_t b = a + 1; b < nodes.size(); ++b) {
        const CutWay edge = way(nodes[a], nodes[b]);
        ways[a][b] = std::max(ways[a][b], edge.latency + bytes / count / edge.bytes_per_second);
        ways[b][a] = ways[a][b];
      }
    }
  });
  return ways;
}

// The clusters wait for the slowest anyway, so that each may as well be that slow where it then has
// less to send. A longer step pays only as long as the averaging can still make up for it.
Throughput CostModel::throughput(const Clusters& clusters) const {
  std::vector<const std::vector<InnerCut>*> choices;  // by cluster
  std::vector<double> limits;                         // on the step, that are worth a try
  double least = 0;
  for (const std::vector<int>& members : clusters) {
    const std::vector<InnerCut>& cuts = cluster(members).cuts;
    choices.push_back(&cuts);
    for (const InnerCut& cut : cuts) limits.push_back(cut.step_seconds);
    least = std::max(least, cuts.front().step_seconds);
  }
  std::erase_if(limits, [&](double limit) { return limit < least; });
  std::ranges::sort(limits);
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  constexpr std::size_t kMostLimits = 32;
  if (limits.size() > kMostLimits) limits.resize(kMostLimits);

  Throughput best;
  double shortest = std::numeric_limits<double>::infinity();
  for (const double limit : limits) {
    if (limit >= shortest) break;
    std::vector<const InnerCut*> cuts;
    for (const std::vector<InnerCut>* choice : choices) {
      const auto behind = std::ranges::upper_bound(*choice, limit, {}, &InnerCut::step_seconds);
      cuts.push_back(&*(behind - 1));
    }
    Throughput found = throughput(clusters, std::move(cuts));
    if (found.samples_per_second <= best.samples_per_second) continue;
    shortest = found.step_seconds + found.averaging_seconds;
    best = std::move(found);
    if (clusters.size() == 1) break;  // nothing is averaged
  }
  return best;
}

Throughput CostModel::throughput(const Clusters& clusters, std::vector<const InnerCut*> cuts) const {
  Throughput found;
  found.averaging_seconds = averaging_seconds(clusters, cuts);
  found.cuts = std::move(cuts);
  for (const InnerCut* cut : found.cuts) found.step_seconds = std::max(found.step_seconds, cut->step_seconds);
  found.samples_per_second = static_cast<double>(costs().batch_size) * static_cast<double>(clusters.size()) /
                             (found.step_seconds + found.averaging_seconds);
  return found;
}

double CostModel::bound_samples_per_second() const {
  double speed = 0;
  for (int node = 0; node < nodes(); ++node) speed += flops_per_second(node);
  return static_cast<double>(costs().batch_size) / costs().micro_batches * speed / sums_.flops.back();
}

}  // namespace rookery
