#include "bench/dtfm_objective.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "models/base/check.hpp"

namespace rookery {
namespace {

// Rows and columns of a group pair: bit c of rows[r] says that r and c may be matched.
using Rows = std::array<std::uint8_t, 8>;

// Kuhn's augmenting paths, a row at a time.
class Matching {
 public:
  explicit Matching(const Rows& rows) : rows_(rows) { partner_.fill(-1); }
  bool is_perfect(std::size_t size) {
    for (std::size_t row = 0; row < size; ++row) {
      seen_ = 0;
      if (!augment(row)) return false;
    }
    return true;
  }

 private:
  bool augment(std::size_t row) {
    for (unsigned open = rows_[row] & ~seen_; open != 0; open = rows_[row] & ~seen_) {
      const auto column = static_cast<std::size_t>(std::countr_zero(open));
      seen_ |= 1U << column;
      if (partner_[column] >= 0 && !augment(static_cast<std::size_t>(partner_[column]))) continue;
      partner_[column] = static_cast<int>(row);
      return true;
    }
    return false;
  }

  const Rows& rows_;  // of the caller
  std::array<int, 8> partner_{};
  unsigned seen_ = 0;
};

using Ways = std::array<std::array<double, DtfmObjective::kMostGroups>, DtfmObjective::kMostGroups>;

// Held and Karp's dynamic programming over subsets.
double shortest_path(const Ways& ways, std::size_t count) {
  std::array<std::array<double, DtfmObjective::kMostGroups>, 1U << DtfmObjective::kMostGroups> best{};
  const unsigned all = (1U << count) - 1;
  for (unsigned visited = 1; visited <= all; ++visited) {
    for (std::size_t last = 0; last < count; ++last) {
      const unsigned before = visited & ~(1U << last);
      double cost = before == 0 ? 0 : DtfmObjective::kNever;
      if (before == visited) cost = DtfmObjective::kNever;
      for (unsigned rest = before == visited ? 0 : before; rest != 0; rest &= rest - 1) {
        const auto previous = static_cast<std::size_t>(std::countr_zero(rest));
        cost = std::min(cost, best[before][previous] + ways[previous][last]);
      }
      best[visited][last] = cost;
    }
  }
  return *std::min_element(best[all].begin(), best[all].begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace

DtfmObjective::DtfmObjective(const NodePool& pool) : nodes_(pool.nodes().size()) {
  ROOKERY_CHECK(nodes_ <= kMostNodes, "{} nodes, at most {}", nodes_, kMostNodes);
  std::vector<double> ways(nodes_ * nodes_);
  latency_.resize(nodes_ * nodes_);
  transfer_.resize(nodes_ * nodes_);
  for (std::size_t i = 0; i < nodes_; ++i) {
    for (std::size_t j = 0; j < nodes_; ++j) {
      if (i == j) continue;
      const LinkSpeed link = pool.link(static_cast<int>(i), static_cast<int>(j));
      const double seconds_per_gb = 8 / (link.bandwidth_mbps / 1e3);
      latency_[i * nodes_ + j] = link.latency_ms / 1e3;
      transfer_[i * nodes_ + j] = kGradients * seconds_per_gb;
      ways[i * nodes_ + j] = link.latency_ms / 1e3 + kActivations * seconds_per_gb;
    }
  }
  way_values_ = ways;
  std::ranges::sort(way_values_);
  way_values_.erase(std::unique(way_values_.begin(), way_values_.end()), way_values_.end());
  for (const double way : ways) {
    const auto rank = std::ranges::lower_bound(way_values_, way) - way_values_.begin();
    way_rank_.push_back(static_cast<std::uint16_t>(rank));
  }
}

double DtfmObjective::exchange_seconds(const std::vector<int>& group) const {
  const auto size = static_cast<double>(group.size());
  double slowest = 0;
  for (const int i : group) {
    double sum = 0;
    for (const int j : group) {
      const std::size_t pair = static_cast<std::size_t>(i) * nodes_ + static_cast<std::size_t>(j);
      sum += 2 * (latency_[pair] + transfer_[pair] / size);  // 0 where i = j
    }
    slowest = std::max(slowest, sum);
  }
  return slowest;
}

// The smallest value up to which there are enough pairs for a perfect matching.
double DtfmObjective::way_seconds(const std::vector<int>& a, const std::vector<int>& b) const {
  const std::size_t size = a.size();
  const auto rank = [&](std::size_t row, std::size_t column) {
    return way_rank_[static_cast<std::size_t>(a[row]) * nodes_ + static_cast<std::size_t>(b[column])];
  };
  std::array<std::uint16_t, 64> values{};
  std::size_t count = 0;
  for (std::size_t row = 0; row < size; ++row) {
    for (std::size_t column = 0; column < size; ++column) values[count++] = rank(row, column);
  }
  auto* const end = values.begin() + count;
  std::sort(values.begin(), end);
  auto* const distinct = std::unique(values.begin(), end);
  auto* const found = std::partition_point(values.begin(), distinct, [&](std::uint16_t limit) {
    Rows rows{};
    for (std::size_t row = 0; row < size; ++row) {
      for (std::size_t column = 0; column < size; ++column) {
        if (rank(row, column) <= limit) rows[row] |= static_cast<std::uint8_t>(1U << column);
      }
    }
    return !Matching(rows).is_perfect(size);
  });
  return way_values_[*found];
}

Score DtfmObjective::score(const Grouping& grouping) const {
  const std::size_t count = grouping.clusters.size();
  std::array<Mask, kMostGroups> masks{};
  double slowest = 0;
  double exchange_sum = 0;
  for (std::size_t g = 0; g < count; ++g) {
    for (const int node : grouping.clusters[g]) masks[g] |= Mask{1} << static_cast<unsigned>(node);
    const double exchange = exchange_seconds(grouping.clusters[g]);
    slowest = std::max(slowest, exchange);
    exchange_sum += exchange;
  }
  Ways ways{};
  double way_sum = 0;
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      const double way = ways_.get(std::minmax({masks[a], masks[b]}),
                                   [&] { return way_seconds(grouping.clusters[a], grouping.clusters[b]); });
      ways[a][b] = ways[b][a] = way;
      way_sum += way;
    }
  }
  return {cost(slowest, shortest_path(ways, count)), exchange_sum + way_sum};
}

}  // namespace rookery
