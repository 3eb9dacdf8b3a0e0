#include "bench/dtfm_proof.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>

#include "models/base/check.hpp"

namespace rookery {
namespace {

using Counts = std::vector<std::uint8_t>;

bool are_twins(const NodePool& pool, int a, int b) {
  for (int other = 0; other < pool.size(); ++other) {
    if (other != a && other != b && pool.link(a, other) != pool.link(b, other)) return false;
  }
  return true;
}

std::vector<std::vector<int>> classes_of(const NodePool& pool) {
  std::vector<std::vector<int>> classes;
  for (int node = 0; node < pool.size(); ++node) {
    const auto same = std::ranges::find_if(
        classes, [&](const std::vector<int>& members) { return are_twins(pool, members[0], node); });
    if (same == classes.end()) {
      classes.push_back({node});
    } else {
      same->push_back(node);
    }
  }
  return classes;
}

// Calls visit(counts) with all ways to take `left` nodes of the classes from `first` on.
template <typename Visit>
void for_each_composition(const std::vector<std::vector<int>>& classes, Counts& counts, std::size_t first,
                          std::size_t left, const Visit& visit) {
  if (first == classes.size()) {
    if (left == 0) visit(counts);
    return;
  }
  for (std::size_t taken = 0; taken <= std::min(left, classes[first].size()); ++taken) {
    counts[first] = static_cast<std::uint8_t>(taken);
    for_each_composition(classes, counts, first + 1, left - taken, visit);
  }
}

class Proof {
 public:
  Proof(double known, const NodePool& pool, const DtfmObjective& objective, std::size_t groups)
      : objective_(objective),
        groups_(groups),
        size_(pool.nodes().size() / groups),
        limit_(known - kDtfmTolerance),
        classes_(classes_of(pool)) {
    ROOKERY_CHECK(groups * size_ == pool.nodes().size(), "{} nodes, {} groups", pool.nodes().size(), groups);
    for (std::size_t c = 0; c < classes_.size(); ++c) parts_.push_back({c});
    find_levels();
    list_compositions();
  }

  std::optional<Grouping> run() {
    Counts all;
    for (const std::vector<std::size_t>& part : parts_) {
      std::size_t nodes = 0;
      for (const std::size_t c : part) nodes += classes_[c].size();
      all.push_back(static_cast<std::uint8_t>(nodes));
    }
    std::vector<std::size_t> compositions(exchange_.size());
    std::iota(compositions.begin(), compositions.end(), 0);
    extend(compositions, all, 0, 0);
    if (best_.empty()) return std::nullopt;
    Grouping grouping;
    std::vector<std::vector<int>> left = classes_;
    for (const std::size_t composition : best_) {
      std::vector<int>& group = grouping.clusters.emplace_back();
      for (std::size_t c = 0; c < classes_.size(); ++c) {
        for (int i = 0; i < counts_of(composition)[c]; ++i) {
          group.push_back(left[c].back());
          left[c].pop_back();
        }
      }
    }
    return grouping;
  }

 private:
  // The links up to a value. Its parts are parts_[begin], …, parts_[end - 1]; the first one is of all classes
  // without any such link.
  struct Level {
    double next = 0;  // the least value above
    double gap = 0;   // between the two
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  void find_levels() {
    const std::size_t count = classes_.size();
    std::vector<std::vector<double>> ways(count, std::vector<double>(count, DtfmObjective::kNever));
    std::vector<double> values;
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = 0; b < count; ++b) {
        if (a == b && classes_[a].size() == 1) continue;
        ways[a][b] = objective_.way_seconds({classes_[a].front()}, {classes_[b].back()});
        values.push_back(ways[a][b]);
      }
    }
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
    fastest_way_ = values.empty() ? 0 : values[0];
    for (std::size_t v = 0; v + 1 < values.size(); ++v) {
      std::vector<std::size_t> root(count);
      std::iota(root.begin(), root.end(), 0);
      std::vector<bool> linked(count);
      for (std::size_t a = 0; a < count; ++a) {
        for (std::size_t b = 0; b < count; ++b) {
          if (ways[a][b] > values[v]) continue;
          linked[a] = true;
          std::ranges::replace(root, std::size_t{root[b]}, std::size_t{root[a]});
        }
      }
      std::vector<std::vector<std::size_t>> parts(count + 1);
      for (std::size_t c = 0; c < count; ++c) parts[linked[c] ? root[c] + 1 : 0].push_back(c);
      parts.erase(std::remove(parts.begin() + 1, parts.end(), std::vector<std::size_t>()), parts.end());
      if (parts.size() == 2 && parts[0].empty()) break;
      const double gap = values[v + 1] - values[v];
      if (!levels_.empty() &&
          std::equal(parts_.begin() + levels_.back().begin, parts_.end(), parts.begin(), parts.end())) {
        levels_.back().next = values[v + 1];
        levels_.back().gap += gap;
        continue;
      }
      levels_.push_back({values[v + 1], gap, parts_.size(), parts_.size() + parts.size()});
      parts_.insert(parts_.end(), parts.begin(), parts.end());
    }
  }

  void list_compositions() {
    std::vector<std::pair<double, Counts>> found;
    Counts counts(classes_.size());
    for_each_composition(classes_, counts, 0, size_, [&](const Counts& composition) {
      found.emplace_back(objective_.exchange_seconds(members(composition, false)), composition);
    });
    std::ranges::sort(found);
    least_exchange_.assign(classes_.size(), DtfmObjective::kNever);
    for (const auto& [exchange, composition] : found) {
      exchange_.push_back(exchange);
      for (const std::vector<std::size_t>& part : parts_) {
        int nodes = 0;
        for (const std::size_t c : part) nodes += composition[c];
        counts_.push_back(static_cast<std::uint8_t>(nodes));
      }
      for (std::size_t c = 0; c < classes_.size(); ++c) {
        if (composition[c] > 0) least_exchange_[c] = std::min(least_exchange_[c], exchange);
      }
    }
  }

  // Nodes of that composition: the first ones of each class, or the last ones.
  std::vector<int> members(std::span<const std::uint8_t> composition, bool last) const {
    std::vector<int> nodes;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      const auto begin = last ? classes_[c].end() - composition[c] : classes_[c].begin();
      nodes.insert(nodes.end(), begin, begin + composition[c]);
    }
    return nodes;
  }

  std::span<const std::uint8_t> counts_of(std::size_t composition) const {
    return std::span(counts_).subspan(composition * parts_.size(), parts_.size());
  }

  // Of two compositions for which there are nodes.
  double way(std::size_t a, std::size_t b) {
    const auto [first, second] = std::minmax(a, b);
    const auto [entry, is_new] = ways_.try_emplace(first * exchange_.size() + second, 0);
    if (is_new)
      entry->second =
          objective_.way_seconds(members(counts_of(first), false), members(counts_of(second), true));
    return entry->second;
  }

  // Groups that differ at a level differ at those before it, too.
  double least_way(std::size_t a, std::size_t b) const {
    const std::span<const std::uint8_t> from = counts_of(a);
    const std::span<const std::uint8_t> to = counts_of(b);
    for (std::size_t l = levels_.size(); l > 0; --l) {
      const Level& level = levels_[l - 1];
      bool differ = from[level.begin] + to[level.begin] > 0;
      for (std::size_t p = level.begin + 1; p < level.end; ++p) differ = differ || from[p] != to[p];
      if (differ) return level.next;
    }
    return fastest_way_;
  }

  // At least so many ways above the level's value lead from the group `last` through `count` groups of the
  // nodes `left`.
  std::size_t ways_above(const Level& level, std::span<const std::uint8_t> last, const Counts& left,
                         std::size_t count) const {
    const std::size_t unlinked = (left[level.begin] + size_ - 1) / size_;
    // Do `same` more groups like the last one, and then only equal ones, use up all nodes?
    const auto fits = [&](std::size_t same) {
      for (std::size_t p = level.begin; p < level.end; ++p) {
        const std::size_t used = same * last[p];
        if (used > left[p]) return false;
        if (same == count ? used != left[p] : (left[p] - used) % (count - same) != 0) return false;
      }
      return true;
    };
    if (unlinked >= 2 || fits(count)) return unlinked;
    for (std::size_t same = 0; same < count; ++same) {
      if (fits(same)) return 1;
    }
    return 2;
  }

  // Is the cost at least limit_ with this DP, this path up to the group `last`, and `count` more groups?
  bool is_too_dear(double exchange, double path, std::size_t last, const Counts& left,
                   std::size_t count) const {
    double bound = path + static_cast<double>(count) * fastest_way_;
    if (DtfmObjective::cost(exchange, bound) >= limit_) return true;
    for (const Level& level : levels_) {
      bound += level.gap * static_cast<double>(ways_above(level, counts_of(last), left, count));
      if (DtfmObjective::cost(exchange, bound) >= limit_) return true;
    }
    return false;
  }

  // Tries all of `candidates`, by rising DP, as the group after those of path_. `left`: the nodes that are in
  // none, by parts_.
  void extend(const std::vector<std::size_t>& candidates, const Counts& left, double exchange, double path) {
    if (path_.size() == groups_) {
      limit_ = DtfmObjective::cost(exchange, path);
      best_ = path_;
      return;
    }
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      if (left[c] > 0) exchange = std::max(exchange, least_exchange_[c]);
    }
    const std::size_t after = groups_ - path_.size() - 1;
    const auto least_rest = static_cast<double>(after) * fastest_way_;
    std::vector<std::size_t> fitting;
    for (const std::size_t next : candidates) {
      if (DtfmObjective::cost(std::max(exchange, exchange_[next]), path + least_rest) >= limit_) break;
      const std::uint8_t* const counts = counts_of(next).data();
      bool fits = true;
      for (std::size_t c = 0; c < classes_.size(); ++c) fits = fits && counts[c] <= left[c];
      if (fits) fitting.push_back(next);
    }
    Counts rest(left.size());
    for (const std::size_t next : fitting) {
      const double slowest = std::max(exchange, exchange_[next]);
      double length = path;
      if (!path_.empty()) length += least_way(path_.back(), next);
      if (DtfmObjective::cost(slowest, length + least_rest) >= limit_) continue;
      std::ranges::transform(left, counts_of(next), rest.begin(), std::minus<>());
      if (is_too_dear(slowest, length, next, rest, after)) continue;
      if (!path_.empty()) {
        length = path + way(path_.back(), next);
        if (is_too_dear(slowest, length, next, rest, after)) continue;
      }
      path_.push_back(next);
      extend(fitting, rest, slowest, length);
      path_.pop_back();
    }
  }

  const DtfmObjective& objective_;  // of the caller
  const std::size_t groups_;
  const std::size_t size_;  // of a group
  double limit_;            // only what is below counts
  std::vector<std::vector<int>> classes_;
  double fastest_way_ = 0;
  std::vector<Level> levels_;
  std::vector<std::vector<std::size_t>> parts_;  // classes; each one by itself, then those of all levels
  // By composition, in the order of its DP.
  std::vector<double> exchange_;
  Counts counts_;                       // part by part
  std::vector<double> least_exchange_;  // by class, of all compositions that hold it
  std::unordered_map<std::size_t, double> ways_;
  std::vector<std::size_t> path_;
  std::vector<std::size_t> best_;
};

}  // namespace

std::optional<Grouping> grouping_below(double known, const NodePool& pool, const DtfmObjective& objective,
                                       std::size_t groups) {
  return Proof(known, pool, objective, groups).run();
}

}  // namespace rookery
