#include "clusterize/planner/left_out.hpp"

#include <algorithm>
#include <map>

#include "clusterize/costs/step_parts.hpp"
#include "clusterize/order/ring_order.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kMostKinds = 32;        // of nodes left out that are looked into
constexpr std::int64_t kMostWork = 2'000'000;  // nodes in all plans that are tried
constexpr double kLeastGain = 1e-3;            // per cent

void take_if_better(const ThroughputModel& model, Clusters clusters, int cluster, int stage,
                    std::optional<NodePosition>& best) {
  const auto at = static_cast<std::size_t>(cluster);
  if (!model.cluster(clusters[at]).fits()) return;
  const Throughput found = model.throughput(clusters);
  if (found.averaging_seconds == kInfinite) return;
  if (best && found.samples_per_second <= best->samples_per_second) return;
  const StepParts parts = step_parts(model, clusters[at], *found.cuts[at], model.costs().schedule);
  best = {.samples_per_second = found.samples_per_second,
          .step_seconds = found.step_seconds + found.averaging_seconds,
          .cluster = cluster,
          .stage = stage,
          .averaging_seconds = found.averaging_seconds,
          .work_seconds = parts.work[stage],
          .transfer_seconds = parts.transfers[stage] +
                              (stage > 0 ? parts.transfers[static_cast<std::size_t>(stage) - 1] : 0)};
}

// In a cluster of its own, wherever in the rings that is best.
std::optional<NodePosition> position_alone(const ThroughputModel& model, const Clusters& clusters, int node) {
  if (!model.cluster({node}).fits()) return std::nullopt;
  Clusters with = clusters;
  with.push_back({node});
  std::vector<PlacedCluster> placed = model.placed(with);
  RingOrder(model).arrange(placed);
  const Throughput found = model.throughput(placed);
  if (found.averaging_seconds == kInfinite) return std::nullopt;
  return NodePosition{.samples_per_second = found.samples_per_second,
                      .step_seconds = found.step_seconds + found.averaging_seconds,
                      .cluster = static_cast<int>(clusters.size()),
                      .averaging_seconds = found.averaging_seconds};
}

// The least that any piece of the model takes: where much is kept of samples that cross its ends, the whole.
double smallest_piece(const ModelCosts& costs) {
  auto least = static_cast<double>(costs.least_bytes(0, costs.count()));
  for (int i = 0; i < costs.count(); ++i)
    least = std::min(least, static_cast<double>(costs.least_bytes(i, i + 1)));
  return least;
}

// Of so many clusters that there are.
std::string where_text(const NodePosition& position, std::size_t clusters) {
  return position.cluster == static_cast<int>(clusters)
             ? "as a cluster of its own"
             : fmt::format("as stage {} of cluster {}", position.stage, position.cluster);
}

// The nodes of the clusters that cannot be reached either.
std::string names_of_unreachable(const ThroughputModel& model, const Clusters& clusters) {
  constexpr std::size_t kMost = 5;  // of many
  std::vector<int> found;
  for (const std::vector<int>& members : clusters) {
    for (const int node : members) {
      if (!model.pool().node(node).reachable) found.push_back(node);
    }
  }
  std::ranges::sort(found);
  std::string text;
  for (std::size_t i = 0; i < std::min(found.size(), kMost); ++i) {
    const bool is_last = i + 1 == found.size();
    text += fmt::format("{}node_{}", i == 0 ? "" : is_last ? " and " : ", ", model.pool().node(found[i]).id);
  }
  if (found.size() > kMost) text += fmt::format(" and {} more", found.size() - kMost);
  return text;
}

// Why a node that cannot be reached has no better position than `now_best`; empty where that is not for this
// reason.
std::string reason_of_unreachable(const ThroughputModel& model, const SearchOptions& options,
                                  const Clusters& clusters, int node, std::int64_t most,
                                  const std::optional<NodePosition>& now_best, const Throughput& now) {
  const NodePool pool = model.pool().with_reachable({node});
  const ThroughputModel reachable(pool, model.costs());
  const std::optional<NodePosition> position = best_position(reachable, options, clusters, node, most);
  if (!position || (now_best && position->samples_per_second <= now_best->samples_per_second)) return {};
  const double gain = 100 * (position->samples_per_second / now.samples_per_second - 1);
  const bool is_wanted = gain > kLeastGain || options.objective == Objective::kSimilar;
  if (now_best && !is_wanted) return {};
  return fmt::format(
      "others cannot reach it, nor {}, and of two nodes that connect one has to be reachable; {}reached by "
      "others it "
      "would bring {} samples per second {}{}",
      names_of_unreachable(model, clusters), is_wanted ? "" : "even ",
      gain > kLeastGain    ? percent_text(gain / 100) + " more"
      : gain > -kLeastGain ? "as many"
                           : percent_text(-gain / 100) + " fewer",
      where_text(*position, clusters.size()),
      is_wanted ? ": forward a port to it and take \"reachable\": false out of node_configs.json" : "");
}

std::string reason(const std::optional<NodePosition>& position, const SearchOptions& options,
                   std::size_t clusters, const Throughput& now) {
  if (!position) return "no cut of the model that gives this node a part fits the memory of every node";
  const bool alone = position->cluster == static_cast<int>(clusters);
  const std::string where = where_text(*position, clusters);
  const double gain = 100 * (position->samples_per_second / now.samples_per_second - 1);
  if (gain > kLeastGain) {
    return fmt::format(
        "{} it would train {} more samples per second, which {}", where, percent_text(gain / 100),
        options.objective == Objective::kSimilar ? "is not what the objective similar looks for"
                                                 : "the search did not find");
  }
  const std::string because =
      alone ? fmt::format("averaging would take {}", duration_text(position->averaging_seconds))
            : fmt::format("a micro-batch would take {} of work on it and {} on its links",
                          duration_text(position->work_seconds), duration_text(position->transfer_seconds));
  return fmt::format("at best, {}, {} samples per second ({} a step instead of {}); {}", where,
                     gain > -kLeastGain ? "as many" : percent_text(-gain / 100) + " fewer",
                     duration_text(position->step_seconds),
                     duration_text(now.step_seconds + now.averaging_seconds), because);
}

}  // namespace

std::int64_t positions_to_try(int nodes) {
  return std::max<std::int64_t>(100, kMostWork / nodes);
}

std::optional<NodePosition> best_position(const ThroughputModel& model, const SearchOptions& options,
                                          const Clusters& clusters, int node, std::int64_t most) {
  std::optional<NodePosition> best;
  std::int64_t tried = 0;
  const bool may_be_alone =
      !options.clusters && options.min_nodes <= 1 && options.objective != Objective::kLatency;
  if (may_be_alone) best = position_alone(model, clusters, node);
  const auto count = static_cast<int>(clusters.size());
  for (int cluster = 0; cluster < count; ++cluster) {
    const auto stages = static_cast<int>(clusters[cluster].size());
    for (int stage = 0; stage <= stages && tried < most; ++stage, ++tried) {
      Clusters with = clusters;
      std::vector<int>& members = with[cluster];
      members.insert(members.begin() + stage, node);
      take_if_better(model, std::move(with), cluster, stage, best);
    }
  }
  return best;
}

std::vector<std::string> reasons_to_leave_out(const ThroughputModel& model, const SearchOptions& options,
                                              const Clusters& clusters, const Throughput& now,
                                              const std::vector<int>& left_out) {
  std::vector<std::string> reasons;
  std::map<int, std::string> known;  // by class
  const double piece = left_out.empty() ? 0 : smallest_piece(model.costs());
  for (const int node : left_out) {
    std::string& text = known[model.node_class(node)];
    if (text.empty() && model.ram_bytes(node) < piece) {
      text = fmt::format("its memory ({}) is too small for any piece of the model: the smallest needs {}",
                         memory_text(model.ram_bytes(node)), memory_text(piece));
    } else if (text.empty() && std::ssize(known) > kMostKinds) {
      text = fmt::format("not examined, because more than {} kinds of nodes are left out", kMostKinds);
    } else if (text.empty()) {
      const std::int64_t most = positions_to_try(model.nodes()) / kMostKinds + 1;
      const std::optional<NodePosition> position = best_position(model, options, clusters, node, most);
      if (std::ranges::find(model.apart(), node) != model.apart().end())
        text = reason_of_unreachable(model, options, clusters, node, most, position, now);
      if (text.empty()) text = reason(position, options, clusters.size(), now);
    }
    reasons.push_back(text);
  }
  return reasons;
}

}  // namespace rookery
