// Plans by the definitions of the cost model alone, and the best of all there are.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "clusterize/costs/throughput_model.hpp"

namespace rookery {

// A cluster with one of its cuts.
struct DefinedCluster {
  std::vector<int> members;
  std::vector<int> begins;
  double step_seconds = 0;
};

class BruteForce {
 public:
  BruteForce(const NodePool& pool, const ModelCosts& costs) : pool_(pool), costs_(costs) {}

  // Is there a plan with more samples per second than `bar`, over all groupings of some of the nodes, orders
  // of stages, cuts and orders of rings? The most, or nothing.
  std::optional<double> better_than(double bar) {
    best_ = bar;
    found_ = false;
    std::vector<int> nodes(pool_.nodes().size());
    std::iota(nodes.begin(), nodes.end(), 0);
    plan_.clear();
    group(nodes);
    return found_ ? std::optional(best_) : std::nullopt;
  }

  // Batch by longest step and averaging.
  double samples_per_second(const std::vector<DefinedCluster>& clusters) const {
    double step = 0;
    for (const DefinedCluster& cluster : clusters) step = std::max(step, cluster.step_seconds);
    return static_cast<double>(costs_.batch_size) * static_cast<double>(clusters.size()) /
           (step + averaging(clusters, step));
  }

 private:
  const PoolNode& node(int id) const { return pool_.node(id); }
  double speed(int id) const { return 1e9 * node(id).gflops.value_or(kAssumedGflops); }
  static double bytes_per_second(double mbps) { return mbps * 125'000; }
  double connection(int id) const { return bytes_per_second(node(id).bandwidth_mbps); }
  LinkSpeed link(int a, int b) const { return pool_.link(a, b); }
  bool can_connect(int a, int b) const { return node(a).reachable || node(b).reachable; }
  double latency(int a, int b) const { return link(a, b).latency_ms / 1e3; }
  double bandwidth(int a, int b) const { return bytes_per_second(link(a, b).bandwidth_mbps); }
  Segment sum(int begin, int end) const {
    Segment all;
    for (int i = begin; i < end; ++i) {
      const Segment& segment = costs_.segments[i];
      all.work += segment.work;
      all.parameters += segment.parameters;
      all.parameter_bytes += segment.parameter_bytes;
    }
    return all;
  }
  Segment boundary(int at) const { return at > 0 && at < costs_.count() ? costs_.segments[at] : Segment(); }

  // Micro-batches, where the settings leave it to the plan.
  int least_in_flight(int stage, int stages) const {
    const int behind = stages - 1 - stage;
    if (!is_async()) return 1 + std::min(behind, costs_.micro_batches - 1);
    return 1 + std::min(behind, costs_.schedule.max_staleness
                                    ? *costs_.schedule.max_staleness * costs_.micro_batches
                                    : behind);
  }
  int most_in_flight(int stage, int stages) const {
    if (stage + 1 == stages) return 1;
    if (!is_async()) return costs_.micro_batches;
    return costs_.schedule.max_staleness ? 1 + *costs_.schedule.max_staleness * costs_.micro_batches
                                         : least_in_flight(stage, stages);
  }
  bool is_async() const { return costs_.schedule.name == "async"; }

  // RTT + (M - 1) P + update + E; async M P + E, P with its part of the update. Nothing where a stage does
  // not fit.
  std::optional<double> step(const std::vector<int>& members, const std::vector<int>& begins) const {
    double round_trip = 0;
    double period = 0;
    double update = 0;
    std::vector<double> behind;  // by stage: from its forward to its update, turning at stage k
    const auto stages = static_cast<int>(members.size());
    for (int k = 0; k < stages; ++k) {
      const int id = members[k];
      const int begin = begins[k];
      const int end = k + 1 < stages ? begins[static_cast<std::size_t>(k) + 1] : costs_.count();
      const Segment own = sum(begin, end);
      if (static_cast<double>(costs_.memory->bytes({begin, end, least_in_flight(k, stages)})) >
          1e9 * node(id).ram_gb)
        return std::nullopt;
      const Segment in = boundary(begin);
      const Segment out = boundary(end);
      const double moved =
          in.activation_bytes + in.gradient_bytes + out.activation_bytes + out.gradient_bytes;
      const double transfer = node(id).transfer_gbps ? moved * 1e-9 / *node(id).transfer_gbps : 0;
      const double work = (own.work.forward_flops + own.work.backward_flops) / speed(id) + transfer;
      for (double& seconds : behind) seconds += work;
      // In bytes moved for each of a parameter: 7 by Adam, one more by a prediction of weights.
      const double factor = is_async() && least_in_flight(k, stages) > 1 ? 8.0 / 7 : 1;
      behind.push_back(work + factor * own.work.update_flops / speed(id) / costs_.micro_batches);
      round_trip += work;
      update = std::max(update, own.work.update_flops / speed(id));
      period = std::max({period, work, (in.activation_bytes + out.gradient_bytes) / connection(id),
                         (in.gradient_bytes + out.activation_bytes) / connection(id)});
      if (k > 0) {
        const int before = members[static_cast<std::size_t>(k) - 1];
        for (const double bytes : {in.activation_bytes, in.gradient_bytes}) {
          const double hop = latency(before, id) + bytes / bandwidth(before, id);
          round_trip += hop;
          for (int stage = 0; stage < k; ++stage) behind[stage] += hop;
          period = std::max(period, bytes / bandwidth(before, id));
        }
      }
      for (int stage = 0; is_async() && stage <= k; ++stage) {
        period = std::max(period,
                          behind[stage] / (most_in_flight(stage, stages) - least_in_flight(k, stages) + 1));
      }
    }
    if (is_async()) return costs_.micro_batches * period + exchange(members, begins);
    if (most_in_flight(0, stages) < costs_.micro_batches)
      period = std::max(period, round_trip / most_in_flight(0, stages));
    return round_trip + (costs_.micro_batches - 1) * period + update + exchange(members, begins);
  }

  // Shared parameters from user to user and back; async nobody waits for one on its way.
  double exchange(const std::vector<int>& members, const std::vector<int>& begins) const {
    double transfers = 0;
    double longest = 0;
    for (const SharedSegments& shared : costs_.shared) {
      std::vector<int> users;
      for (const int segment : shared.segments) {
        std::size_t stage = begins.size() - 1;
        while (begins[stage] > segment) --stage;
        if (users.empty() || users.back() != members[stage]) users.push_back(members[stage]);
      }
      double waiting = 0;
      for (std::size_t i = 1; i < users.size(); ++i) {
        waiting += 2 * latency(users[i - 1], users[i]);
        transfers += 2 * shared.bytes / bandwidth(users[i - 1], users[i]);
      }
      longest = std::max(longest, waiting);
    }
    return transfers + (is_async() ? 0 : longest);
  }

  // Of a step: what it waits for; of rounds that overlap what they take longer than the steps beside them.
  double averaging(const std::vector<DefinedCluster>& clusters, double step) const {
    if (clusters.size() == 1) return 0;
    const RoundRate rate = costs_.averaging.rate(static_cast<int>(clusters.size()));
    const double whole = round(clusters, 1);
    if (whole == kInfinite) return kInfinite;
    const double fragment = round(clusters, 1.0 / rate.fragments);
    return rate.waited * whole +
           rate.overlapped * rate.fragments * std::max(0.0, fragment - rate.steps_beside * step);
  }

  // 2 (C - 1) messages of this part of the model along the slowest ring, or through the busiest connection.
  double round(const std::vector<DefinedCluster>& clusters, double part) const {
    const auto count = static_cast<double>(clusters.size());
    std::map<std::vector<int>, double> rings;  // bytes by nodes
    std::map<int, double> loads;               // bytes by node
    for (int segment = 0; segment < costs_.count() && count > 1; ++segment) {
      const double bytes = part * costs_.averaging.bytes_per_byte *
                           static_cast<double>(costs_.segments[segment].parameter_bytes);
      std::vector<int> nodes;
      for (const DefinedCluster& cluster : clusters) {
        std::size_t stage = cluster.begins.size() - 1;
        while (cluster.begins[stage] > segment) --stage;
        nodes.push_back(cluster.members[stage]);
        loads[nodes.back()] += bytes;
      }
      rings[nodes] += bytes;
    }
    for (std::size_t c = 0; c < clusters.size(); ++c) {  // Roots talk with each other
      const DefinedCluster& next = clusters[(c + 1) % clusters.size()];
      if (count > 1 && !can_connect(clusters[c].members[0], next.members[0])) return kInfinite;
    }
    double message = 0;
    for (const auto& [nodes, bytes] : rings) {
      for (std::size_t i = 0; i < nodes.size() && bytes > 0; ++i) {
        const int next = nodes[(i + 1) % nodes.size()];
        if (!can_connect(nodes[i], next)) return kInfinite;
        message = std::max(message, latency(nodes[i], next) + bytes / count / bandwidth(nodes[i], next));
      }
    }
    for (const auto& [id, bytes] : loads) message = std::max(message, bytes / count / connection(id));
    return 2 * (count - 1) * message;
  }

  // All cuts of all orders of these, the best first; those with the fewest stages without parameters.
  const std::vector<DefinedCluster>& ways_to_run(std::vector<int> nodes) {
    const auto [entry, is_new] = ways_.try_emplace(nodes);
    if (!is_new) return entry->second;
    for (const int a : nodes) {
      for (const int b : nodes) {
        if (a != b && !can_connect(a, b)) return entry->second;
      }
    }
    do {
      int least = costs_.count();
      std::vector<DefinedCluster> ways;
      std::vector<int> begins{0};
      add_cuts(nodes, begins, least, ways);
      entry->second.insert(entry->second.end(), ways.begin(), ways.end());
    } while (std::ranges::next_permutation(nodes).found);
    std::ranges::sort(entry->second, {}, &DefinedCluster::step_seconds);
    return entry->second;
  }

  void add_cuts(const std::vector<int>& members, std::vector<int>& begins, int& least,
                std::vector<DefinedCluster>& ways) const {
    if (begins.size() == members.size()) {
      int empty = 0;
      for (std::size_t k = 0; k < begins.size(); ++k) {
        const int end = k + 1 < begins.size() ? begins[k + 1] : costs_.count();
        empty += sum(begins[k], end).parameters == 0 ? 1 : 0;
      }
      const std::optional<double> seconds = step(members, begins);
      if (!seconds || empty > least) return;
      if (empty < least) ways.clear();
      least = empty;
      ways.push_back({members, begins, *seconds});
      return;
    }
    for (int next = begins.back() + 1; next < costs_.count(); ++next) {
      begins.push_back(next);
      add_cuts(members, begins, least, ways);
      begins.pop_back();
    }
  }

  // The first of the nodes is left out, or founds a cluster with some of the others.
  void group(const std::vector<int>& nodes) {
    if (nodes.empty()) {
      if (!plan_.empty()) choose(0, 0);
      return;
    }
    group({nodes.begin() + 1, nodes.end()});
    for (unsigned chosen = 0; chosen < 1U << (nodes.size() - 1); ++chosen) {
      std::vector<int> cluster{nodes.front()};
      std::vector<int> rest;
      for (std::size_t i = 1; i < nodes.size(); ++i)
        ((chosen >> (i - 1) & 1U) != 0 ? cluster : rest).push_back(nodes[i]);
      if (ways_to_run(cluster).empty()) continue;
      plan_.push_back(&ways_to_run(cluster));
      group(rest);
      plan_.pop_back();
    }
  }

  // For every cluster a way to run it, as long as its step leaves hope.
  void choose(std::size_t next, double step) {
    const double hope = static_cast<double>(costs_.batch_size) * static_cast<double>(plan_.size()) / best_;
    if (step >= hope) return;
    if (next == plan_.size()) return judge();
    for (const DefinedCluster& way : *plan_[next]) {
      if (way.step_seconds >= hope) break;
      chosen_.push_back(way);
      choose(next + 1, std::max(step, way.step_seconds));
      chosen_.pop_back();
    }
  }

  // Rings in every order, without those that only turn or mirror another.
  void judge() {
    std::vector<DefinedCluster> clusters = chosen_;
    std::vector<std::size_t> order(clusters.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      if (order.size() > 2 && order[1] > order.back()) continue;
      for (std::size_t i = 0; i < order.size(); ++i) clusters[i] = chosen_[order[i]];
      const double found = samples_per_second(clusters);
      if (found <= best_) continue;
      best_ = found;
      found_ = true;
    } while (std::next_permutation(order.begin() + 1, order.end()));
  }

  const NodePool& pool_;
  const ModelCosts& costs_;
  std::map<std::vector<int>, std::vector<DefinedCluster>> ways_;
  std::vector<const std::vector<DefinedCluster>*> plan_;
  std::vector<DefinedCluster> chosen_;
  double best_ = 0;
  bool found_ = false;
};

}  // namespace rookery
