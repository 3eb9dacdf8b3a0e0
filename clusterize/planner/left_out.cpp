#include "clusterize/planner/left_out.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "clusterize/costs/step_parts.hpp"
#include "clusterize/order/ring_order.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kMostKinds = 32;        // of nodes left out that are looked into
constexpr std::int64_t kMostWork = 2'000'000;  // nodes in all plans that are tried

void take_if_better(const CostModel& model, Clusters clusters, int cluster, int stage,
                    std::optional<Place>& best) {
  const auto at = static_cast<std::size_t>(cluster);
  if (!model.cluster(clusters[at]).fits()) return;
  const Throughput found = model.throughput(clusters);
  if (best && found.samples_per_second <= best->samples_per_second) return;
  const StepParts parts = step_parts(model, clusters[at], *found.cuts[at]);
  best = {.samples_per_second = found.samples_per_second,
          .step_seconds = found.step_seconds + found.averaging_seconds,
          .cluster = cluster,
          .stage = stage,
          .averaging_seconds = found.averaging_seconds,
          .work_seconds = parts.work[static_cast<std::size_t>(stage)],
          .transfer_seconds = parts.transfers[static_cast<std::size_t>(stage)] +
                              (stage > 0 ? parts.transfers[static_cast<std::size_t>(stage) - 1] : 0)};
}

// In a cluster of its own, wherever in the rings that is best.
std::optional<Place> place_alone(const CostModel& model, const Clusters& clusters, int node) {
  if (!model.cluster({node}).fits()) return std::nullopt;
  Clusters with = clusters;
  with.push_back({node});
  std::vector<PlacedCluster> placed = model.placed(with);
  RingOrder(model).arrange(placed);
  const Throughput found = model.throughput(placed);
  return Place{.samples_per_second = found.samples_per_second,
               .step_seconds = found.step_seconds + found.averaging_seconds,
               .cluster = static_cast<int>(clusters.size()),
               .averaging_seconds = found.averaging_seconds};
}

// The least that any piece of the model takes.
double smallest_piece(const ModelCosts& costs) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < costs.count(); ++i)
    least = std::min(least, static_cast<double>(costs.least_bytes(i, i + 1)));
  return least;
}

std::string reason(const std::optional<Place>& place, const SearchOptions& options, std::size_t clusters,
                   const Throughput& now) {
  if (!place) return "no cut of the model that gives this node a part fits the memory of every node";
  const bool alone = place->cluster == static_cast<int>(clusters);
  const std::string where = alone ? "as a cluster of its own"
                                  : fmt::format("as stage {} of cluster {}", place->stage, place->cluster);
  const double gain = 100 * (place->samples_per_second / now.samples_per_second - 1);
  if (gain > 1e-3) {
    return fmt::format("{} it would train {:.3g}% more samples per second, which {}", where, gain,
                       options.objective == Objective::kSimilar
                           ? "is not what the objective similar looks for"
                           : "the search did not find");
  }
  const std::string because =
      alone ? fmt::format("averaging would take {}", duration_text(place->averaging_seconds))
            : fmt::format("a micro-batch would take {} of work on it and {} on its links",
                          duration_text(place->work_seconds), duration_text(place->transfer_seconds));
  return fmt::format("at best, {}, {} samples per second ({} a step instead of {}); {}", where,
                     gain > -1e-3 ? "as many" : fmt::format("{:.3g}% fewer", -gain),
                     duration_text(place->step_seconds),
                     duration_text(now.step_seconds + now.averaging_seconds), because);
}

}  // namespace

std::int64_t places_to_try(int nodes) {
  return std::max<std::int64_t>(100, kMostWork / nodes);
}

std::optional<Place> best_place(const CostModel& model, const SearchOptions& options,
                                const Clusters& clusters, int node, std::int64_t most) {
  std::optional<Place> best;
  std::int64_t tried = 0;
  const bool may_be_alone =
      !options.clusters && options.min_nodes <= 1 && options.objective != Objective::kLatency;
  if (may_be_alone) best = place_alone(model, clusters, node);
  const auto count = static_cast<int>(clusters.size());
  for (int cluster = 0; cluster < count; ++cluster) {
    const auto stages = static_cast<int>(clusters[static_cast<std::size_t>(cluster)].size());
    for (int stage = 0; stage <= stages && tried < most; ++stage, ++tried) {
      Clusters with = clusters;
      std::vector<int>& members = with[static_cast<std::size_t>(cluster)];
      members.insert(members.begin() + stage, node);
      take_if_better(model, std::move(with), cluster, stage, best);
    }
  }
  return best;
}

std::vector<std::string> reasons_to_leave_out(const CostModel& model, const SearchOptions& options,
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
      const std::int64_t most = places_to_try(model.nodes()) / kMostKinds + 1;
      text = reason(best_place(model, options, clusters, node, most), options, clusters.size(), now);
    }
    reasons.push_back(text);
  }
  return reasons;
}

}  // namespace rookery
