#include "clusterize/unmet.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/error.hpp"

namespace rookery {
namespace {

std::string memory_text(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.3g} MB", bytes / 1e6) : fmt::format("{:.3g} GB", bytes / 1e9);
}

[[noreturn]] void fail_memory(const CostModel& model) {
  const ModelCosts& costs = model.costs();
  double together = 0;
  double largest = 0;
  for (const PoolNode& node : model.pool().nodes()) {
    together += 1e9 * node.ram_gb;
    largest = std::max(largest, 1e9 * node.ram_gb);
  }
  const auto& memory = costs.may_recompute ? costs.recomputed_memory : costs.memory;
  std::int64_t piece = 0;
  for (int i = 0; i < costs.count(); ++i) piece = std::max(piece, memory(i, i + 1, 1));
  const auto whole = static_cast<double>(memory(0, costs.count(), 1));
  std::string advice = "use a smaller batch_size, more micro_batches, ";
  if (!costs.may_recompute && costs.recomputed_memory) {
    const auto recomputed = static_cast<double>(costs.recomputed_memory(0, costs.count(), 1));
    advice += fmt::format("recompute \"auto\" (on one machine it then takes {}), ", memory_text(recomputed));
  }
  constexpr const char* kMessage =
      "{} with batch_size {} and micro_batches {} does not fit{}: on one machine it takes {}, its largest "
      "piece that cannot be cut {} with buffers for its links; all machines ({}) have {} together, the "
      "largest {}: {}or more or larger machines";
  throw ConfigError(fmt::format(kMessage, costs.name, costs.batch_size, costs.micro_batches,
                                costs.may_recompute ? ", even with activations recomputed" : "",
                                memory_text(whole), memory_text(static_cast<double>(piece)), model.nodes(),
                                memory_text(together), memory_text(largest), advice));
}

void check_counts(const CostModel& model, const SearchOptions& options) {
  if (!options.clusters) return;
  const int each = std::clamp(options.min_nodes, 1, std::min(model.nodes(), model.costs().count()));
  if (*options.clusters * each <= model.nodes()) return;
  throw ConfigError(fmt::format(
      "{} clusters of at least {} nodes need {} nodes, there are {}: ask for at most {} clusters, or "
      "for fewer nodes in each",
      *options.clusters, each, *options.clusters * each, model.nodes(), model.nodes() / each));
}

void check_pins(const CostModel& model, const SearchOptions& options) {
  std::map<std::pair<int, int>, int> nodes;  // by cluster and stage
  for (const auto& [node, pin] : options.pins) {
    const auto name = [&](int of) { return "node_" + model.pool().nodes()[static_cast<std::size_t>(of)].id; };
    if (pin.stage >= model.costs().count()) {
      throw ConfigError(fmt::format("{} is pinned to stage {}, but {} can be cut into {} stages, 0 to {}",
                                    name(node), pin.stage, model.costs().name, model.costs().count(),
                                    model.costs().count() - 1));
    }
    const auto [other, is_new] = nodes.emplace(std::pair(pin.cluster, pin.stage), node);
    if (!is_new) {
      throw ConfigError(fmt::format("{} and {} are both pinned to stage {} of cluster {}: move one of them",
                                    name(other->second), name(node), pin.stage, pin.cluster));
    }
    if (options.clusters && pin.cluster >= *options.clusters) {
      throw ConfigError(fmt::format("{} is pinned to cluster {}, but {} clusters are asked for, 0 to {}",
                                    name(node), pin.cluster, *options.clusters, *options.clusters - 1));
    }
  }
}

// What the pool would allow if nothing but memory counted.
std::string possible_text(const CostModel& model, const Grouping& possible) {
  double together = 0;
  for (int node = 0; node < model.nodes(); ++node) together += model.ram_bytes(node);
  return fmt::format(
      "a copy of {} takes {} on one machine, more on several, and all {} machines have {} together; "
      "without constraints {} {} possible",
      model.costs().name, memory_text(model.least_bytes()), model.nodes(), memory_text(together),
      possible.clusters.size() == 1 ? "one cluster" : fmt::format("{} clusters", possible.clusters.size()),
      possible.clusters.size() == 1 ? "is" : "are");
}

}  // namespace

void fail_unmet(const CostModel& model, const SearchOptions& options) {
  const bool is_constrained = options.clusters || !options.pins.empty() || options.min_nodes > 1;
  if (!is_constrained) fail_memory(model);
  check_counts(model, options);
  check_pins(model, options);
  // As many clusters as memory allows; fails by memory itself.
  const Grouping possible = find_clusters(
      model,
      {.objective = Objective::kSimilar, .min_nodes = 1, .seed = options.seed, .threads = options.threads});
  std::string wanted = fmt::format("at least {} nodes in each cluster", options.min_nodes);
  if (options.clusters) wanted += fmt::format(", {} clusters", *options.clusters);
  if (!options.pins.empty()) wanted += fmt::format(", {} pinned nodes", options.pins.size());
  throw ConfigError(
      fmt::format("no plan was found that meets the constraints ({}): {}; loosen one, use a smaller "
                  "batch_size, or more or larger machines",
                  wanted, possible_text(model, possible)));
}

}  // namespace rookery
