#include "clusterize/costs/throughput_model.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "clusterize/costs/node_equivalence.hpp"
#include "clusterize/pool/rate.hpp"
#include "models/base/check.hpp"

namespace rookery {
namespace {

constexpr double kBytesPerGb = 1e9;

// Of the cluster's cuts those whose step is within the limit, the least load first.
std::vector<const StagePartition*> choices_within(const PlacedCluster& cluster, double limit) {
  std::vector<const StagePartition*> choices;
  for (const StagePartition& cut : cluster.cost->cuts) {
    if (cut.step_seconds <= limit) choices.push_back(&cut);
  }
  std::ranges::reverse(choices);
  return choices;
}

// Steps at which a cut of less load comes within reach, rising; evenly chosen where there are many.
std::vector<double> limits_between(const std::vector<PlacedCluster>& clusters, double least, double end) {
  std::vector<double> limits;
  for (const PlacedCluster& cluster : clusters) {
    for (const StagePartition& cut : cluster.cost->cuts) {
      if (cut.step_seconds > least && cut.step_seconds < end) limits.push_back(cut.step_seconds);
    }
  }
  std::ranges::sort(limits);
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  const std::size_t most = std::clamp<std::size_t>(1000 / clusters.size(), 4, 32);
  if (limits.size() <= most) return limits;
  std::vector<double> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(limits[i * limits.size() / most]);
  return some;
}

}  // namespace

ThroughputModel::ThroughputModel(const NodePool& pool, const ModelCosts& costs, const std::set<int>& special)
    : pool_(pool), sums_(costs), node_classes_(node_equivalence(pool, special)) {
  for (const int threads : pool.all_threads()) {
    const std::int64_t bytes = costs.memory->bytes({.first = 0, .last = costs.count(), .threads = threads});
    whole_bytes_ = std::max(whole_bytes_, static_cast<double>(bytes));
  }
  least_bytes_ = static_cast<double>(costs.least_bytes(0, costs.count()));
  for (int node = 0; node < nodes(); ++node) {
    if (!pool.node(node).reachable) apart_.push_back(node);
  }
  if (apart_.size() == 1) apart_.clear();
  // Gradient and value, from one neighbour and to the other, twice each (transport_bytes()).
  for (const SharedSegments& shared : costs.shared) shared_bytes_ += 8 * shared.bytes;
}

double ThroughputModel::flops_per_second(int node) const {
  const std::optional<double> given = pool_.node(node).gflops;
  return 1e9 * (given ? *given : costs().assumed_gflops(pool_.threads(node)));
}

double ThroughputModel::transfer_seconds_per_byte(int node) const {
  const std::optional<double> gbps = pool_.node(node).transfer_gbps;
  return gbps ? 1e-9 / *gbps : 0;
}

double ThroughputModel::ram_bytes(int node) const {
  return kBytesPerGb * pool_.node(node).ram_gb;
}

int ThroughputModel::unreachable(const std::vector<int>& members) const {
  if (apart_.empty()) return 0;
  return static_cast<int>(
      std::ranges::count_if(members, [&](int node) { return !pool_.node(node).reachable; }));
}

bool ThroughputModel::may_be_cluster(const std::vector<int>& members) const {
  return std::ssize(members) <= costs().most_machines() && unreachable(members) <= 1;
}

bool ThroughputModel::can_join(const std::vector<int>& members, int node) const {
  return std::ranges::all_of(members, [&](int other) { return pool_.can_connect(other, node); });
}

int ThroughputModel::largest_cluster() const {
  const int connected = nodes() - std::max(0, static_cast<int>(apart_.size()) - 1);
  return std::min(connected, costs().most_machines());
}

CutWay ThroughputModel::way(int from, int to) const {
  const LinkSpeed link = pool_.link(from, to);
  return {.latency = link.latency_ms / 1e3, .bytes_per_second = bytes_per_second(link.bandwidth_mbps)};
}

CutMachine ThroughputModel::machine(int node, std::size_t stages) const {
  CutMachine machine{.flops_per_second = flops_per_second(node),
                     .memory_bytes = ram_bytes(node),
                     .bytes_per_second = bytes_per_second(pool_.connection_mbps(node))};
  machine.seconds_per_byte = transfer_seconds_per_byte(node);
  machine.threads = pool_.threads(node);
  // A stage keeps no more per micro-batch in flight than the whole model does, but for what links keep of
  // samples, so where that fits many times over, nothing needs to be measured.
  const auto slots = static_cast<double>(costs().slots(0, static_cast<int>(stages)));
  if ((slots + 1) * whole_bytes_ + shared_bytes_ + costs().most_kept_bytes <= machine.memory_bytes)
    machine.memory_bytes = std::numeric_limits<double>::infinity();
  return machine;
}

std::size_t ThroughputModel::Hash::operator()(const std::vector<int>& nodes) const {
  std::uint64_t hash = nodes.size();
  for (const int node : nodes) {
    hash = (hash ^ static_cast<std::uint64_t>(node)) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29U;
  }
  return hash;
}

const ClusterCost& ThroughputModel::cluster(const std::vector<int>& members) const {
  return known_.get(node_classes(members), [&] { return evaluate(members); });
}

std::vector<int> ThroughputModel::node_classes(const std::vector<int>& members) const {
  std::vector<int> classes;
  classes.reserve(members.size());
  for (const int node : members) classes.push_back(node_class(node));
  return classes;
}

const StagePartition* ThroughputModel::cut(const std::vector<int>& members,
                                           const std::vector<int>& begins) const {
  std::vector<int> key = node_classes(members);
  key.insert(key.end(), begins.begin(), begins.end());
  const ClusterCost& cost = known_cuts_.get(key, [&] { return evaluate(members, begins); });
  return cost.fits() ? &cost.cuts.front() : nullptr;
}

// All cuts, or the one that begins so.
ClusterCost ThroughputModel::evaluate(const std::vector<int>& members, const std::vector<int>& begins) const {
  if (!may_be_cluster(members)) return {.shortfall = shortfall(members)};
  StagePartitioner cutter(sums_, static_cast<int>(members.size()));
  for (std::size_t stage = 0; stage < members.size(); ++stage) {
    const int node = members[stage];
    const std::optional<int> end =
        stage + 1 < begins.size() ? std::optional(begins[stage + 1]) : std::nullopt;
    cutter.push(machine(node, members.size()), stage > 0 ? way(members[stage - 1], node) : CutWay(), end);
    if (!cutter.fits()) return {.shortfall = shortfall(members)};
  }
  ClusterCost cost{.cuts = cutter.cuts()};
  for (StagePartition& cut : cost.cuts) cut.step_seconds += exchange_seconds(members, cut.begins);
  std::ranges::stable_sort(cost.cuts, {}, &StagePartition::step_seconds);
  return cost;
}

double ThroughputModel::shortfall(const std::vector<int>& members) const {
  double memory = 0;
  for (const int node : members) memory += ram_bytes(node);
  const double too_many = std::max(0.0, static_cast<double>(members.size()) - costs().most_machines());
  const double not_connected = std::max(0, unreachable(members) - 1);
  return 1 + too_many + not_connected + std::max(0.0, least_bytes_ - memory) / least_bytes_;
}

std::vector<StageTimes> ThroughputModel::stage_times(const std::vector<int>& members,
                                                     const StagePartition& cut) const {
  std::vector<StageTimes> all;
  for (std::size_t stage = 0; stage < members.size(); ++stage) {
    const bool last = stage + 1 == members.size();
    const int begin = cut.begins[stage];
    const int end = last ? costs().count() : cut.begins[stage + 1];
    const WorkSeconds work = work_seconds(sums_, begin, end, machine(members[stage], members.size()));
    const double factor = costs().update_factor(static_cast<int>(stage), static_cast<int>(members.size()));
    StageTimes times{.forward = work.forward, .backward = work.backward, .update = work.update * factor};
    if (cut.recompute[stage]) times.backward += times.forward;
    const double transfer = transfer_seconds_per_byte(members[stage]);
    for (const int boundary : {begin, end}) {
      if (boundary == 0 || boundary == costs().count()) continue;
      const Segment& behind = costs().segments[boundary];
      times.forward += behind.activation_bytes * transfer;
      times.backward += behind.gradient_bytes * transfer;
    }
    if (!last) {
      const CutWay next = way(members[stage], members[stage + 1]);
      times.send = next.latency + costs().segments[end].activation_bytes / next.bytes_per_second;
    }
    all.push_back(times);
  }
  return all;
}

// Shared parameters follow each other, so that their bytes add up and their latencies do not. Squares for
// clipping are sent as soon as a stage is done, so that those of the first stage are waited for.
double ThroughputModel::exchange_seconds(const std::vector<int>& members,
                                         const std::vector<int>& begins) const {
  double transfers = 0;
  double latency = 0;
  for (const SharedSegments& shared : costs().shared) {
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
  if (!is_synchronous(costs().schedule)) return transfers;
  double norm = 0;
  for (std::size_t stage = 1; costs().waits_for_norm && stage < members.size(); ++stage)
    norm = std::max(norm, way(members[0], members[stage]).latency);
  return transfers + latency + norm;
}

std::vector<PlacedCluster> ThroughputModel::placed(const Clusters& clusters) const {
  std::vector<PlacedCluster> all;
  all.reserve(clusters.size());
  for (const std::vector<int>& members : clusters) all.push_back({&members, &cluster(members)});
  return all;
}

// By a ring's first segment, a message's bytes in the round of one of so many fragments; 0 elsewhere.
std::vector<double> ThroughputModel::ring_bytes(const std::vector<const StagePartition*>& cuts,
                                                int fragments) const {
  std::vector<bool> begins(costs().count(), false);
  for (const StagePartition* cut : cuts) {
    for (const int begin : cut->begins) begins[begin] = true;
  }
  std::vector<double> bytes(begins.size(), 0);
  const double messages = static_cast<double>(cuts.size()) * fragments;
  std::size_t first = 0;
  for (std::size_t end = 1; end <= begins.size(); ++end) {
    if (end < begins.size() && !begins[end]) continue;
    bytes[first] = (sums_.round_bytes[end] - sums_.round_bytes[first]) / messages;
    first = end;
  }
  return bytes;
}

// The slowest ring's message between two neighbours: a ring runs between the stages that have its segments,
// and those of two machines' chunks share their link.
double ThroughputModel::message_seconds(const PlacedCluster& from, const StagePartition& from_cut,
                                        const PlacedCluster& to, const StagePartition& to_cut,
                                        const std::vector<double>& bytes) const {
  const auto count = bytes.size();
  const auto end_of = [count](const StagePartition& cut, std::size_t stage) {
    return stage + 1 < cut.begins.size() ? static_cast<std::size_t>(cut.begins[stage + 1]) : count;
  };
  if (!rings_connect(from, from_cut, to, to_cut)) return kInfinite;
  double slowest = 0;
  std::map<std::pair<int, int>, double> crowded;  // bytes from machine to machine
  std::size_t a = 0;
  std::size_t b = 0;
  for (std::size_t begin = 0; begin < count;) {
    const std::size_t end = std::min(end_of(from_cut, a), end_of(to_cut, b));
    double most = 0;
    for (std::size_t i = begin; i < end; ++i) most = std::max(most, bytes[i]);
    if (most > 0) {
      const int sender = (*from.members)[a];
      const int receiver = (*to.members)[b];
      if (pool_.has_chunks()) most = crowded[{pool_.machine(sender), pool_.machine(receiver)}] += most;
      const CutWay edge = way(sender, receiver);
      slowest = std::max(slowest, edge.latency + most / edge.bytes_per_second);
    }
    if (end_of(from_cut, a) == end) ++a;
    if (end_of(to_cut, b) == end) ++b;
    begin = end;
  }
  return slowest;
}

// Segments of the node that cannot be reached; none where all can.
StageRange ThroughputModel::unreachable_part(const PlacedCluster& cluster, const StagePartition& cut) const {
  for (std::size_t stage = 0; stage < cut.begins.size(); ++stage) {
    if (pool_.node((*cluster.members)[stage]).reachable) continue;
    return {.first = cut.begins[stage],
            .last = stage + 1 < cut.begins.size() ? cut.begins[stage + 1] : costs().count()};
  }
  return {};
}

bool ThroughputModel::rings_connect(const PlacedCluster& a, const StagePartition& cut_of_a,
                                    const PlacedCluster& b, const StagePartition& cut_of_b) const {
  if (apart_.empty()) return true;
  if (!pool_.can_connect(a.members->front(), b.members->front())) return false;
  const StageRange one = unreachable_part(a, cut_of_a);
  const StageRange other = unreachable_part(b, cut_of_b);
  const int begin = std::max(one.first, other.first);
  const int end = std::min(one.last, other.last);
  if (begin >= end) return true;
  return sums_.averaged[end] == sums_.averaged[begin];
}

// Of each cluster the cut with the least load whose step is within the limit; others where neighbours in the
// rings could not connect.
std::vector<const StagePartition*> ThroughputModel::cuts_within(const std::vector<PlacedCluster>& clusters,
                                                                double limit) const {
  std::vector<const StagePartition*> cuts;
  cuts.reserve(clusters.size());
  for (const PlacedCluster& cluster : clusters) {
    const std::vector<StagePartition>& choices = cluster.cost->cuts;
    cuts.push_back(&*(std::ranges::upper_bound(choices, limit, {}, &StagePartition::step_seconds) - 1));
  }
  for (std::size_t c = 0; c < clusters.size() && clusters.size() > 1 && !apart_.empty(); ++c)
    connect_with_next(clusters, limit, c, cuts);
  return cuts;
}

// Changes the cuts of the cluster and of the next to the first within the limit with which both connect with
// their neighbours, if there are such.
void ThroughputModel::connect_with_next(const std::vector<PlacedCluster>& clusters, double limit,
                                        std::size_t at, std::vector<const StagePartition*>& cuts) const {
  const std::size_t count = clusters.size();
  const std::size_t next = (at + 1) % count;
  const auto connects = [&](std::size_t one) {
    const std::size_t other = (one + 1) % count;
    return rings_connect(clusters[one], *cuts[one], clusters[other], *cuts[other]);
  };
  if (connects(at)) return;
  const std::pair before(cuts[at], cuts[next]);
  for (const StagePartition* own : choices_within(clusters[at], limit)) {
    for (const StagePartition* of_next : choices_within(clusters[next], limit)) {
      std::tie(cuts[at], cuts[next]) = std::pair(own, of_next);
      if (connects((at + count - 1) % count) && connects(at) && connects(next)) return;
    }
  }
  std::tie(cuts[at], cuts[next]) = before;
}

int ThroughputModel::unconnected(const std::vector<PlacedCluster>& clusters,
                                 const std::vector<const StagePartition*>& cuts) const {
  int count = 0;
  for (std::size_t c = 0; c < clusters.size() && clusters.size() > 1; ++c) {
    const std::size_t next = (c + 1) % clusters.size();
    count += rings_connect(clusters[c], *cuts[c], clusters[next], *cuts[next]) ? 0 : 1;
  }
  return count;
}

double ThroughputModel::round_seconds(const std::vector<PlacedCluster>& clusters,
                                      const std::vector<const StagePartition*>& cuts, int fragments,
                                      double enough, std::size_t& slowest) const {
  const std::size_t count = clusters.size();
  const double messages = 2 * (static_cast<double>(count) - 1);
  const std::vector<double> bytes = ring_bytes(cuts, fragments);
  double seconds = 0;  // of the slowest message
  for (std::size_t i = 0, first = slowest; i < count && messages * seconds < enough; ++i) {
    const std::size_t from = (first + i) % count;
    const std::size_t to = (from + 1) % count;
    const double message =
        std::max(message_seconds(clusters[from], *cuts[from], clusters[to], *cuts[to], bytes),
                 cuts[from]->load_seconds / static_cast<double>(count) / fragments);
    if (message <= seconds) continue;
    seconds = message;
    slowest = from;
  }
  return messages * seconds;
}

std::vector<std::vector<double>> ThroughputModel::ring_ways(
    const std::vector<PlacedCluster>& clusters) const {
  std::vector<const StagePartition*> cuts;
  for (const PlacedCluster& cluster : clusters) cuts.push_back(&cluster.cost->cuts.front());
  const std::vector<double> bytes = ring_bytes(cuts, 1);
  std::vector<std::vector<double>> ways(clusters.size(), std::vector<double>(clusters.size(), 0));
  for (std::size_t a = 0; a < clusters.size(); ++a) {
    for (std::size_t b = a + 1; b < clusters.size(); ++b)
      ways[a][b] = ways[b][a] = message_seconds(clusters[a], *cuts[a], clusters[b], *cuts[b], bytes);
  }
  return ways;
}

// The clusters wait for the slowest anyway, so that each may as well be that slow where it then has
// less to send. A longer step pays only as long as the averaging can still make up for it.
Throughput ThroughputModel::throughput(const std::vector<PlacedCluster>& clusters) const {
  double least = 0;
  for (const PlacedCluster& cluster : clusters)
    least = std::max(least, cluster.cost->cuts.front().step_seconds);
  Rival rival;
  Throughput best = throughput(clusters, cuts_within(clusters, least), rival);
  if (clusters.size() == 1) return best;  // nothing is averaged
  for (const double limit : limits_between(clusters, least, best.step_seconds + best.averaging_seconds)) {
    rival.seconds = best.step_seconds + best.averaging_seconds;
    if (limit >= rival.seconds) break;
    Throughput found = throughput(clusters, cuts_within(clusters, limit), rival);
    if (found.samples_per_second > best.samples_per_second) best = std::move(found);
  }
  return best;
}

Throughput ThroughputModel::throughput(const std::vector<PlacedCluster>& clusters,
                                       std::vector<const StagePartition*> cuts, Rival& rival) const {
  Throughput found;
  for (const StagePartition* cut : cuts) found.step_seconds = std::max(found.step_seconds, cut->step_seconds);
  if (clusters.size() > 1) {
    const RoundRate rate = costs().averaging.rate(static_cast<int>(clusters.size()));
    constexpr double kRounding = 1 + 1e-9;
    const bool is_told_by_message = rate.overlapped == 0 && rate.waited > 0 && rival.seconds < kInfinite;
    const double enough =
        is_told_by_message ? (rival.seconds - found.step_seconds) / rate.waited * kRounding : kInfinite;
    RoundSeconds round{.whole = round_seconds(clusters, cuts, 1, enough, rival.slowest)};
    round.fragment = rate.fragments == 1
                         ? round.whole
                         : round_seconds(clusters, cuts, rate.fragments, enough, rival.slowest);
    found.averaging_seconds = exposed_seconds(rate, round, found.step_seconds);
    found.round_seconds = mean_seconds(rate, round);
  }
  found.cuts = std::move(cuts);
  found.samples_per_second = static_cast<double>(costs().batch_size) * static_cast<double>(clusters.size()) /
                             (found.step_seconds + found.averaging_seconds);
  return found;
}

double ThroughputModel::bound_samples_per_second() const {
  double models = 0;  // that all nodes compute in a second
  for (int node = 0; node < nodes(); ++node)
    models += flops_per_second(node) / sums_.work(pool_.threads(node)).flops.back();
  return static_cast<double>(costs().batch_size) / costs().micro_batches * models;
}

}  // namespace rookery
