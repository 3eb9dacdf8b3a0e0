#include "clusterize/order/node_order.hpp"

#include <algorithm>
#include <compare>
#include <optional>

namespace rookery {
namespace {

// What an order is worth: smaller is better.
struct Worth {
  double shortfall = kInfinite;
  int empty_stages = 0;  // without parameters
  double seconds = 0;

  auto operator<=>(const Worth&) const = default;
};

Worth worth_of(const ThroughputModel& model, const std::vector<int>& row) {
  const ClusterCost& cost = model.cluster(row);
  if (!cost.fits()) return {cost.shortfall, 0, 0};
  return {0, cost.cuts.front().empty_stages, cost.cuts.front().step_seconds};
}

class OrderSearch {
 public:
  OrderSearch(const ThroughputModel& model, std::vector<int> members, const std::map<int, int>& stages)
      : model_(model), members_(std::move(members)), stages_(stages) {
    std::ranges::sort(members_, {}, [&](int node) { return std::pair(model.node_class(node), node); });
    for (const int a : members_) {
      for (const int b : members_) {
        if (a != b) least_latency_ = std::min(least_latency_, model.way(a, b).latency);
      }
    }
    try_simple_orders();
  }

  void branch_and_bound(int pushes) {
    pushes_left_ = pushes;
    cutter_.emplace(model_.sums(), static_cast<int>(members_.size()), StagePartitioner::Goal::kStep);
    row_.clear();
    used_.assign(members_.size(), false);
    branch();
  }

  // Two nodes change places, or one moves, as long as that helps.
  void improve(int evaluations) {
    for (bool better = true; better && evaluations > 0;) {
      better = false;
      const auto count = std::ssize(best_);
      for (std::ptrdiff_t a = 0; a < count && evaluations > 0; ++a) {
        for (std::ptrdiff_t b = 0; b < count && evaluations > 0; ++b) {
          if (a == b) continue;
          std::vector<int> row = best_;
          if (a < b) {
            std::swap(row[a], row[b]);
          } else {
            std::rotate(row.begin() + b, row.begin() + a, row.begin() + a + 1);
          }
          --evaluations;
          better = consider(row) || better;
        }
      }
    }
  }

  const std::vector<int>& best() const { return best_; }

 private:
  // By class, by region, and the fastest first.
  void try_simple_orders() {
    std::vector<int> row = members_;
    consider(placed(row));
    const auto node = [&](int id) -> const PoolNode& { return model_.pool().node(id); };
    std::ranges::stable_sort(row, {}, [&](int id) { return -model_.flops_per_second(id); });
    consider(placed(row));
    std::ranges::stable_sort(row, {}, [&](int id) -> const std::string& { return node(id).region; });
    consider(placed(row));
  }

  // Nodes whose stage is given, there; the others as they were.
  std::vector<int> placed(const std::vector<int>& row) const {
    if (stages_.empty()) return row;
    std::vector<int> result(row.size(), -1);
    std::vector<int> others;
    for (const int node : row) {
      const auto given = stages_.find(node);
      const bool has_place =
          given != stages_.end() && given->second < std::ssize(row) && result[given->second] < 0;
      if (has_place) {
        result[given->second] = node;
      } else {
        others.push_back(node);
      }
    }
    auto next = others.begin();
    for (int& node : result) {
      if (node < 0) node = *next++;
    }
    return result;
  }

  bool may_stand(int node, std::size_t stage) const {
    const auto given = stages_.find(node);
    if (given != stages_.end()) return given->second == static_cast<int>(stage);
    return std::ranges::none_of(members_, [&](int other) {
      const auto of_other = stages_.find(other);
      return of_other != stages_.end() && of_other->second == static_cast<int>(stage);
    });
  }

  bool consider(const std::vector<int>& row) {
    for (std::size_t stage = 0; stage < row.size() && !stages_.empty(); ++stage) {
      if (!best_.empty() && !may_stand(row[stage], stage)) return false;
    }
    const Worth worth = worth_of(model_, row);
    if (!best_.empty() && !(worth < worth_)) return false;
    best_ = row;
    worth_ = worth;
    return true;
  }

  void branch() {
    if (row_.size() == members_.size()) {
      if (is_better()) consider(row_);
      return;
    }
    int tried = -1;  // class
    for (std::size_t i = 0; i < members_.size() && pushes_left_ > 0; ++i) {
      const int node = members_[i];
      if (used_[i] || model_.node_class(node) == tried || !may_stand(node, row_.size())) continue;
      tried = model_.node_class(node);
      --pushes_left_;
      if (only_seconds_count()) cutter_->set_limit(worth_.seconds);
      cutter_->push(model_.machine(node, members_.size()),
                    row_.empty() ? CutWay() : model_.way(row_.back(), node));
      used_[i] = true;
      row_.push_back(node);
      if (is_promising()) branch();
      row_.pop_back();
      used_[i] = false;
      cutter_->pop();
    }
  }

  bool is_promising() const {
    if (!cutter_->fits()) return false;
    if (!only_seconds_count()) return true;
    double fastest = 0;
    double together = 0;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (used_[i]) continue;
      fastest = std::max(fastest, model_.flops_per_second(members_[i]));
      together += model_.flops_per_second(members_[i]);
    }
    const auto hops = static_cast<double>(members_.size() - row_.size());
    return cutter_->bound(fastest, together, hops > 0 ? 2 * hops * least_latency_ : 0) < worth_.seconds;
  }

  // Of the whole row that the cutter has, without all that is known of a row once it is considered.
  bool is_better() const {
    return std::ranges::any_of(cutter_->cuts(), [&](const StagePartition& cut) {
      const double seconds = cut.step_seconds + model_.exchange_seconds(row_, cut.begins);
      return Worth{0, cut.empty_stages, seconds} < worth_;
    });
  }

  // Does the best row fit, with parameters on every stage?
  bool only_seconds_count() const { return worth_.shortfall <= 0 && worth_.empty_stages == 0; }

  const ThroughputModel& model_;
  std::vector<int> members_;  // of the same class side by side
  const std::map<int, int>& stages_;
  double least_latency_ = kInfinite;
  std::vector<int> best_;
  Worth worth_;
  // Of branch and bound.
  std::optional<StagePartitioner> cutter_;
  std::vector<int> row_;
  std::vector<bool> used_;  // of members_
  int pushes_left_ = 0;
};

}  // namespace

std::vector<int> best_order(const ThroughputModel& model, std::vector<int> members,
                            const std::map<int, int>& stages, const OrderEffort& effort) {
  if (members.size() < 2 || !model.may_be_cluster(members)) return members;
  OrderSearch search(model, std::move(members), stages);
  if (std::ssize(search.best()) <= effort.exact_nodes) {
    search.branch_and_bound(effort.pushes);
  } else {
    search.improve(effort.evaluations);
  }
  return search.best();
}

}  // namespace rookery
