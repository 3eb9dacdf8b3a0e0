#include "clusterize/search/throughput_bound.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

namespace rookery {
namespace {

constexpr double kRatio = 1.02;  // between the ends of an interval

// Runs of segments, as shares of the model's arithmetic, by what they take.
class Runs {
 public:
  explicit Runs(const PartitionSums& sums) {
    const std::size_t count = sums.flops.size();
    for (std::size_t begin = 0; begin < count; ++begin) {
      for (std::size_t end = begin + 1; end < count; ++end)
        runs_.emplace_back(sums.flops[end] - sums.flops[begin],
                           sums.round_bytes[end] - sums.round_bytes[begin]);
    }
    std::ranges::sort(runs_);
  }

  // Most flops of a run that takes no more than these.
  double most_flops(double flops, double bytes) const {
    auto run = std::ranges::upper_bound(runs_, flops * (1 + 1e-9), {}, &std::pair<double, double>::first);
    while (run != runs_.begin()) {
      --run;
      if (run->second <= bytes * (1 + 1e-9)) return run->first;
    }
    return 0;
  }

 private:
  std::vector<std::pair<double, double>> runs_;  // flops, bytes; rising
};

// Clusters and seconds of a message: from the first on, and before the second.
struct Interval {
  double clusters, clusters_end;
  double message, message_end;
  RoundRate rate;  // none of these numbers of clusters has less to wait for
};

class Bound {
 public:
  explicit Bound(const ThroughputModel& model) : model_(model), runs_(model.sums()) {
    collect_regions();
    fastest_first_.resize(model.nodes());
    std::iota(fastest_first_.begin(), fastest_first_.end(), 0);
    std::ranges::stable_sort(fastest_first_, {}, [&](int node) { return -model.flops_per_second(node); });
    double without_parameters = 0;
    for (std::size_t i = 0; i < model.costs().segments.size(); ++i) {
      const Segment& segment = model.costs().segments[i];
      const double flops = model.sums().flops[i + 1] - model.sums().flops[i];
      if (segment.parameter_bytes == 0)
        without_parameters += flops;
      else
        least_bytes_ = std::min(least_bytes_, model.costs().averaging.bytes_per_byte *
                                                  static_cast<double>(segment.parameter_bytes));
    }
    share_in_rings_ = 1 - without_parameters / model.sums().flops.back();
  }

  double samples_per_second() {
    const auto nodes = static_cast<double>(model_.nodes());
    best_ = value({1, 2, 0, 0, {}}, shortest_step(fastest_first_, 1, kInfinite));
    for (double clusters = 2; clusters <= nodes;) {
      const double end = std::min(nodes + 1, std::max(clusters + 1, std::floor(clusters * kRatio)));
      try_messages(clusters, end);
      clusters = end;
    }
    return best_;
  }

 private:
  void collect_regions() {
    constexpr std::size_t kMostRegionsApart = 300;
    std::map<std::string, std::size_t> numbers;
    for (const PoolNode& node : model_.pool().nodes()) numbers.emplace(node.region, numbers.size());
    const bool is_one = numbers.size() > kMostRegionsApart;
    regions_ = is_one ? 1 : numbers.size();
    for (const PoolNode& node : model_.pool().nodes())
      region_of_.push_back(is_one ? 0 : numbers.at(node.region));
    ways_.assign(regions_ * regions_, {.latency = kInfinite, .bytes_per_second = 0});
    fastest_way_.assign(model_.nodes(), 0);
    for (int a = 0; a < model_.nodes(); ++a) {
      for (int b = a + 1; b < model_.nodes(); ++b) {
        const CutWay way = model_.way(a, b);
        for (const int node : {a, b}) {
          double& fastest = fastest_way_[node];
          fastest = std::max(fastest, way.bytes_per_second);
        }
        for (CutWay* best : {&way_between(region(a), region(b)), &way_between(region(b), region(a))}) {
          best->latency = std::min(best->latency, way.latency);
          best->bytes_per_second = std::max(best->bytes_per_second, way.bytes_per_second);
        }
      }
    }
  }

  std::size_t region(int node) const { return region_of_[node]; }
  CutWay& way_between(std::size_t a, std::size_t b) { return ways_[a * regions_ + b]; }

  void try_messages(double clusters, double clusters_end) {
    const double least_step = shortest_step(fastest_first_, clusters, kInfinite);
    const RoundRate rate = least_rate(clusters, clusters_end);
    double message = kInfinite;
    for (const CutWay& way : ways_)
      message = std::min(message, way.latency + least_bytes_ / clusters_end / way.bytes_per_second);
    for (;; message *= kRatio) {
      const Interval interval{clusters, clusters_end, message, message * kRatio, rate};
      if (value(interval, least_step) <= best_) return;
      const std::vector<int> nodes = usable(interval);
      if (static_cast<double>(nodes.size()) < clusters) continue;
      const double step =
          shortest_step(nodes, clusters * share_in_rings_, interval.message_end * clusters_end);
      best_ = std::max(best_, value(interval, step));
    }
  }

  // The least of each.
  RoundRate least_rate(double clusters, double clusters_end) const {
    RoundRate least = model_.costs().averaging.rate(static_cast<int>(clusters));
    for (int count = static_cast<int>(clusters) + 1; count < static_cast<int>(clusters_end); ++count) {
      const RoundRate rate = model_.costs().averaging.rate(count);
      least.waited = std::min(least.waited, rate.waited);
      least.overlapped = std::min(least.overlapped, rate.overlapped);
      least.steps_beside = std::max(least.steps_beside, rate.steps_beside);
    }
    return least;
  }

  // A fragment has its part of the bytes, and no less latency.
  double value(const Interval& of, double step) const {
    const double round = 2 * (of.clusters - 1) * of.message;
    const double averaging =
        exposed_seconds(of.rate, {.whole = round, .fragment = round / of.rate.fragments}, step);
    return static_cast<double>(model_.costs().batch_size) * (of.clusters_end - 1) / (step + averaging);
  }

  // Nodes of the sets of enough nodes that ways within the message connect.
  std::vector<int> usable(const Interval& of) {
    std::vector<std::size_t> set(regions_);
    std::iota(set.begin(), set.end(), 0);
    std::vector<double> needed(regions_, kInfinite);  // least bytes per second of a node's fastest way
    for (std::size_t a = 0; a < regions_; ++a) {
      for (std::size_t b = a; b < regions_; ++b) {
        const CutWay& way = way_between(a, b);
        if (way.latency >= of.message_end) continue;
        const double bytes_per_second = least_bytes_ / of.clusters_end / (of.message_end - way.latency);
        if (way.bytes_per_second < bytes_per_second) continue;
        needed[a] = std::min(needed[a], bytes_per_second);
        needed[b] = std::min(needed[b], bytes_per_second);
        std::ranges::replace(set, std::size_t{set[b]}, std::size_t{set[a]});
      }
    }
    std::vector<int> count(regions_, 0);
    const auto is_connected = [&](int node) { return fastest_way_[node] >= needed[region(node)]; };
    for (int node = 0; node < model_.nodes(); ++node) {
      if (is_connected(node)) ++count[set[region(node)]];
    }
    std::vector<int> nodes;
    for (const int node : fastest_first_) {
      if (is_connected(node) && count[set[region(node)]] >= of.clusters) nodes.push_back(node);
    }
    return nodes;
  }

  // In which these do the arithmetic of so many models, none more than one, and a batch passes through a
  // model, on the average, as often as its schedule makes it; no longer than that.
  double shortest_step(const std::vector<int>& nodes, double models, double load_seconds) const {
    const double whole = model_.sums().flops.back();
    double speed = 0;
    for (const int node : nodes) speed += model_.flops_per_second(node);
    const ModelCosts& costs = model_.costs();
    const double batches = costs.micro_batches;
    const int most = costs.most_slots(0, costs.count());
    const double waits = most < costs.micro_batches ? (batches - 1) / most : 0;
    const double passes = is_synchronous(costs.schedule) ? 1 + waits : batches / most;
    const auto is_enough = [&](double step) {
      double left = models * whole * (1 - 1e-9);
      double passing = 0;             // seconds, of all models
      for (const int node : nodes) {  // the fastest first
        const double own = model_.flops_per_second(node);
        const double flops = std::min(
            left,
            runs_.most_flops(step * own / batches, load_seconds * model_.machine(node, 1).bytes_per_second));
        passing += flops / own;
        left -= flops;
        if (left <= 0) break;
      }
      return left <= 0 && passing / models * passes <= step;
    };
    const double step = models * whole * batches / speed;
    int known = -1;  // powers of kRatio that are not enough
    constexpr int kMostPowers = 500;
    for (int end = kMostPowers; end - known > 1;) {
      const int middle = known + (end - known) / 2;
      (is_enough(step * std::pow(kRatio, middle)) ? end : known) = middle;
    }
    return step * std::pow(kRatio, std::max(known, 0));
  }

  const ThroughputModel& model_;
  Runs runs_;
  std::vector<int> fastest_first_;
  std::size_t regions_ = 1;
  std::vector<std::size_t> region_of_;  // by node
  std::vector<double> fastest_way_;     // by node: bytes per second
  std::vector<CutWay> ways_;            // region by region, the best in both respects
  double least_bytes_ = kInfinite;      // of a segment with parameters
  double share_in_rings_ = 1;           // of the arithmetic, in segments with parameters
  double best_ = 0;
};

}  // namespace

double throughput_bound(const ThroughputModel& model) {
  return Bound(model).samples_per_second();
}

}  // namespace rookery
