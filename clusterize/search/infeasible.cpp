#include "clusterize/search/infeasible.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

std::string clusters_text(std::int64_t count) {
  return count == 1 ? "1 cluster" : fmt::format("{} clusters", count);
}

// Looks for changes with which there is a plan. Each is tried.
class Remedies {
 public:
  Remedies(const ThroughputModel& model, const SearchOptions& options) : model_(model), options_(options) {
    options_.objective = Objective::kSimilar;  // finds what fits soonest
    options_.progress = {};
    options_.seconds = {};
  }

  // "batch_size 32", "--clusters 2", … Any of them would do.
  std::vector<std::string> all() {
    try_clusters();
    try_min_nodes();
    if (!options_.pins.empty() && is_met(model_, without(&SearchOptions::pins))) add("no --pin");
    try_reachable();
    try_training();
    return std::move(found_);
  }

 private:
  static constexpr std::int64_t kEvaluations = 4'000;  // of a search

  static std::int64_t clusters_of(const ThroughputModel& model, const SearchOptions& options) {
    const std::optional<Grouping> found = search_clusters(model, options, kEvaluations);
    return found ? std::ssize(found->clusters) : 0;
  }
  static bool is_met(const ThroughputModel& model, const SearchOptions& options) {
    return clusters_of(model, options) > 0;
  }
  template <typename Member>
  SearchOptions without(Member SearchOptions::*member) const {
    SearchOptions options = options_;
    options.*member = {};
    return options;
  }
  void add(std::string text) { found_.push_back(std::move(text)); }

  void try_clusters() {
    if (!options_.clusters || *options_.clusters == 1) return;
    const std::int64_t most = clusters_of(model_, without(&SearchOptions::clusters));
    if (most > 0 && most < *options_.clusters) add(fmt::format("--clusters {}", most));
  }

  void try_min_nodes() {
    for (int fewer = std::min(options_.min_nodes, model_.nodes()) - 1; fewer >= 1; --fewer) {
      SearchOptions options = options_;
      options.min_nodes = fewer;
      if (!is_met(model_, options)) continue;
      return add(fmt::format("--min-nodes-per-cluster {}", fewer));
    }
  }

  void try_reachable() {
    if (model_.apart().empty()) return;
    const NodePool pool = model_.pool().with_reachable(model_.apart());
    if (is_met(ThroughputModel(pool, model_.costs(), pinned()), options_))
      add("a port forwarded to each node that has \"reachable\": false, and that taken out");
  }

  // The largest batch, the fewest micro-batches, recomputing; both at once where neither helps.
  void try_training() {
    const ModelCosts& costs = model_.costs();
    if (!costs.trained) return;
    const Training now{costs.batch_size,
                       costs.micro_batches,
                       costs.must_recompute  ? "full"
                       : costs.may_recompute ? "auto"
                                             : "none",
                       costs.schedule.max_staleness,
                       costs.schedule.in_flight,
                       costs.schedule.name};
    const std::size_t before = found_.size();
    try_batches(now, "");
    try_micro_batches(now);
    if (!is_synchronous(costs.schedule)) try_staleness(now);
    try_in_flight(now);
    if (delays_weights(costs.schedule)) try_schedule(now);
    if (costs.may_recompute) return;
    Training recomputing = now;
    recomputing.recompute = "auto";
    if (is_met(recomputing)) {
      add("recompute \"auto\"");
    } else if (found_.size() == before) {
      try_batches(recomputing, " with recompute \"auto\"");
    }
  }

  void try_micro_batches(Training training) {
    while (2 * training.micro_batches <= training.batch_size) {
      training.micro_batches *= 2;
      if (is_met(training)) return add(fmt::format("micro_batches {}", training.micro_batches));
    }
  }

  // Fewer batches in flight.
  void try_staleness(Training training) {
    const ModelCosts& costs = model_.costs();
    const int in_flight = costs.slots(0, std::min(model_.nodes(), costs.count()));
    for (int most = updates_behind(costs.schedule, in_flight, costs.micro_batches); most > 0;) {
      most /= 2;
      training.max_staleness = most;
      if (is_met(training)) return add(fmt::format("--max-staleness {}", most));
    }
  }

  // Where it is set.
  void try_in_flight(Training training) {
    while (training.in_flight.value_or(1) > 1) {
      *training.in_flight /= 2;
      if (is_met(training)) return add(fmt::format("in_flight {}", *training.in_flight));
    }
  }

  // That which keeps no more than it has in flight.
  void try_schedule(Training training) {
    training.schedule = ScheduleSettings().name;
    if (is_met(training)) add(fmt::format("schedule \"{}\"", training.schedule));
  }

  void try_batches(Training training, const char* also) {
    while (training.batch_size > 1) {
      training.batch_size /= 2;
      training.micro_batches =
          static_cast<int>(std::min<std::int64_t>(training.micro_batches, training.batch_size));
      if (is_met(training)) return add(fmt::format("batch_size {}{}", training.batch_size, also));
    }
  }

  bool is_met(const Training& training) const {
    const ModelCosts costs = model_.costs().trained(training);
    return is_met(ThroughputModel(model_.pool(), costs, pinned()), options_);
  }

  std::set<int> pinned() const {
    std::set<int> nodes;
    for (const auto& [node, pin] : options_.pins) nodes.insert(node);
    return nodes;
  }

  const ThroughputModel& model_;  // of the caller
  SearchOptions options_;
  std::vector<std::string> found_;
};

// What would help, as the end of a sentence that says what does not fit.
std::string advice(const ThroughputModel& model, const SearchOptions& options) {
  const std::vector<std::string> remedies = Remedies(model, options).all();
  if (remedies.empty()) {
    return model.costs().trained
               ? "neither a smaller batch_size nor more micro_batches nor recompute would do: "
                 "more or larger machines are needed"
               : "more or larger machines are needed";
  }
  return fmt::format("there is a plan with {}", fmt::join(remedies, ", or with "));
}

// Of nodes that cannot be reached, where there are several.
std::string apart_text(const ThroughputModel& model) {
  if (model.apart().empty()) return {};
  std::vector<std::string> names;
  for (const int node : model.apart()) names.push_back("node_" + model.pool().node(node).id);
  constexpr std::size_t kMost = 5;
  const std::size_t more = names.size() - std::min(names.size(), kMost);
  names.resize(names.size() - more);
  return fmt::format(
      "; of {}{}, that others cannot reach, one can be in a cluster, whose nodes all connect to each other",
      fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

[[noreturn]] void fail_memory(const ThroughputModel& model, const SearchOptions& options) {
  const ModelCosts& costs = model.costs();
  double together = 0;
  double largest = 0;
  for (const PoolNode& node : model.pool().nodes()) {
    together += 1e9 * node.ram_gb;
    largest = std::max(largest, 1e9 * node.ram_gb);
  }
  std::int64_t piece = 0;
  for (int i = 0; i < costs.count(); ++i) piece = std::max(piece, costs.least_bytes(i, i + 1));
  const auto whole = static_cast<double>(costs.least_bytes(0, costs.count()));
  const bool keeps_samples = costs.most_kept_bytes > 0;
  const std::string there_is = model.nodes() == 1
                                   ? fmt::format("the one machine has {}", memory_text(together))
                                   : fmt::format("the {} machines together have {}, the largest {}",
                                                 model.nodes(), memory_text(together), memory_text(largest));
  constexpr const char* kMessage =
      "{} with batch_size {} and micro_batches {} does not fit the machines' memory{}: on one machine it "
      "takes "
      "{}, and its largest piece that cannot be cut {}, with buffers for its links{}; {}{}; {}";
  throw ConfigError(fmt::format(kMessage, costs.name, costs.batch_size, costs.micro_batches,
                                costs.may_recompute ? ", even with activations recomputed" : "",
                                memory_text(whole), memory_text(static_cast<double>(piece)),
                                keeps_samples ? " and what transport keeps of samples" : "", there_is,
                                apart_text(model), advice(model, options)));
}

void check_counts(const ThroughputModel& model, const SearchOptions& options) {
  if (!options.clusters) return;
  const int each = std::clamp(options.min_nodes, 1, model.largest_cluster());
  if (std::int64_t{*options.clusters} * each <= model.nodes()) return;
  throw ConfigError(fmt::format(
      "{} of at least {} {} need {} nodes, there are {}: ask for at most {}, or for fewer nodes in each",
      clusters_text(*options.clusters), each, each == 1 ? "node" : "nodes",
      std::int64_t{*options.clusters} * each, model.nodes(), clusters_text(model.nodes() / each)));
}

void check_pins(const ThroughputModel& model, const SearchOptions& options) {
  std::map<std::pair<int, int>, int> nodes;  // by cluster and stage
  for (const auto& [node, pin] : options.pins) {
    const auto name = [&](int of) { return "node_" + model.pool().node(of).id; };
    const int places = model.costs().most_machines();
    if (pin.stage >= places) {
      throw ConfigError(fmt::format("{} is pinned to stage {}, but {} can be cut into {} stages, 0 to {}",
                                    name(node), pin.stage, model.costs().name, places, places - 1));
    }
    const auto [other, is_new] = nodes.emplace(std::pair(pin.cluster, pin.stage), node);
    if (!is_new) {
      throw ConfigError(fmt::format("{} and {} are both pinned to stage {} of cluster {}: move one of them",
                                    name(other->second), name(node), pin.stage, pin.cluster));
    }
    if (options.clusters && pin.cluster >= *options.clusters) {
      throw ConfigError(fmt::format(
          "{} is pinned to cluster {}, but {} asked for: cluster 0 is the first", name(node), pin.cluster,
          *options.clusters == 1 ? "1 cluster is" : fmt::format("{} clusters are", *options.clusters)));
    }
  }
}

// What the pool would allow if nothing but memory counted.
std::string possible_text(const ThroughputModel& model, std::int64_t possible) {
  double together = 0;
  for (int node = 0; node < model.nodes(); ++node) together += model.ram_bytes(node);
  return fmt::format(
      "a copy of {} takes {} on one machine, more on several, and all {} machines have {} together; "
      "without constraints {} possible",
      model.costs().name, memory_text(model.least_bytes()), model.nodes(), memory_text(together),
      possible == 1 ? "1 cluster is" : fmt::format("{} clusters are", possible));
}

}  // namespace

void throw_infeasible(const ThroughputModel& model, const SearchOptions& options) {
  check_counts(model, options);
  check_pins(model, options);
  // As many clusters as memory allows.
  const std::optional<Grouping> possible = search_clusters(
      model,
      {.objective = Objective::kSimilar, .min_nodes = 1, .seed = options.seed, .threads = options.threads},
      usual_evaluations(model.nodes()));
  if (!possible) fail_memory(model, options);
  std::string wanted = fmt::format("at least {} {} in each cluster", options.min_nodes,
                                   options.min_nodes == 1 ? "node" : "nodes");
  if (options.clusters) wanted += ", " + clusters_text(*options.clusters);
  if (!options.pins.empty())
    wanted += fmt::format(", {} pinned {}", options.pins.size(), options.pins.size() == 1 ? "node" : "nodes");
  throw ConfigError(fmt::format("no plan was found that meets the constraints ({}): {}; {}", wanted,
                                possible_text(model, std::ssize(possible->clusters)) + apart_text(model),
                                advice(model, options)));
}

}  // namespace rookery
