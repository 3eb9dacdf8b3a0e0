#include "clusterize/report/explanation.hpp"

#include <algorithm>
#include <optional>

#include "clusterize/order/cut_refinement.hpp"
#include "clusterize/planner/left_out.hpp"
#include "clusterize/pool/pool_changes.hpp"
#include "clusterize/report/simulation_report.hpp"
#include "clusterize/search/find_clusters.hpp"
#include "clusterize/search/throughput_bound.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

using Kind = Bottleneck::Kind;

constexpr double kSecondsOfSearch = 5;  // for each what-if
constexpr std::size_t kMostPorts = 3;   // that are forwarded, each by itself

class Explainer {
 public:
  Explainer(const Json& document, const std::set<std::string>& excluded, const SearchOptions& options,
            const Planned& planned)
      : document_(document),
        excluded_(excluded),
        options_(options),
        planned_(planned),
        pool_(pool_of(document)) {}

  Explanation run(const Bottleneck& bottleneck) {
    const ClusterPlan& plan = planned_.plan;
    Explanation found{
        .samples_per_second = plan.predicted_samples_per_second,
        .arithmetic_samples_per_second = plan.bound_samples_per_second,
        .reachable_samples_per_second = throughput_bound(ThroughputModel(pool_, planned_.costs)),
        .bottleneck = bottleneck};
    const PoolNode& best = best_node();
    add(found, {.change = fmt::format("one more node like node_{}", best.id),
                .document = with_copy_of(document_, best.id),
                .new_node = static_cast<int>(pool_.nodes().size())});
    for (const Remedy& remedy : remedies(found.bottleneck)) add(found, remedy);
    for (const Remedy& remedy : ports_to_forward()) add(found, remedy);
    return found;
  }

 private:
  // node_configs.json where every node's bandwidth is what it may use: a link that is given changes what is
  // assumed of nodes on one machine.
  Json with_connections() const {
    Json document = document_;
    for (int i = 0; i < pool_.size(); ++i)
      document.at(pool_.node(i).id).at("benchmarks")["bandwidth"] = pool_.connection_mbps(i);
    return document;
  }

  struct Remedy {
    std::string change;
    Json document;
    std::optional<int> new_node = std::nullopt;  // of the changed pool, that the plan has not
  };

  NodePool pool_of(const Json& document) const {
    return NodePool::from_json(document, "node_configs.json").without(excluded_);
  }
  // The machine of a stage.
  const PoolNode& node(int cluster, int stage) const {
    return pool_.node(planned_.pool.machine(planned_.members[cluster][stage]));
  }

  double assumed_gflops(const PoolNode& node) const {
    return planned_.costs.assumed_gflops(node.threads.value_or(1));
  }

  // What-ifs give each machine one stage (searched_costs()). Where the plan gives it several they count by
  // their ratio to the same clusters so.
  double rate_of_chunks() const {
    if (planned_.members == planned_.machines) return 1;
    const ThroughputModel model(pool_, planned_.costs);
    return planned_.plan.predicted_samples_per_second /
           model.throughput(planned_.machines).samples_per_second;
  }

  // The fastest of the plan; of equals the one with the fastest connection.
  const PoolNode& best_node() const {
    const PoolNode* best = nullptr;
    const auto worth = [this](const PoolNode& node) {
      return std::pair(node.gflops.value_or(assumed_gflops(node)), node.bandwidth_mbps);
    };
    for (const std::vector<int>& members : planned_.machines) {
      for (const int member : members) {
        const PoolNode& node = pool_.node(member);
        if (best == nullptr || worth(*best) < worth(node)) best = &node;
      }
    }
    return *best;
  }

  std::vector<Remedy> remedies(const Bottleneck& worst) const {
    const PoolNode& own_node = node(worst.cluster, worst.stage);
    const std::string& own = own_node.id;
    switch (worst.kind) {
      case Kind::kNode:
      case Kind::kUpdate:
        return {{fmt::format("node_{} twice as fast", own),
                 with_faster_node(document_, own, 2, assumed_gflops(own_node))}};
      case Kind::kLink: {
        const std::string& next = node(worst.cluster, worst.to_stage).id;
        const auto& members = planned_.members[worst.cluster];
        const LinkSpeed link = planned_.pool.link(members[worst.stage], members[worst.to_stage]);
        const std::string between = fmt::format("between node_{} and node_{}", own, next);
        return {{"twice the bandwidth " + between,
                 with_link(with_connections(), own, next, {link.latency_ms, 2 * link.bandwidth_mbps})},
                {"half the latency " + between,
                 with_link(with_connections(), own, next, {link.latency_ms / 2, link.bandwidth_mbps})}};
      }
      case Kind::kConnection:
        return {
            {fmt::format("twice the bandwidth of node_{}", own), with_faster_connection(document_, own, 2)}};
      case Kind::kExchange:
      case Kind::kAveraging:
        return {};
    }
    return {};
  }

  // To each node that is left out and cannot be reached.
  std::vector<Remedy> ports_to_forward() const {
    std::vector<Remedy> all;
    for (const LeftOutNode& left : planned_.plan.left_out) {
      const auto node = std::ranges::find_if(
          pool_.nodes(), [&](const PoolNode& of_pool) { return "node_" + of_pool.id == left.node; });
      if (node == pool_.nodes().end() || node->reachable || all.size() == kMostPorts) continue;
      all.push_back({.change = fmt::format("a port forwarded to {}, so that others reach it", left.node),
                     .document = with_reachable_node(document_, node->id),
                     .new_node = static_cast<int>(node - pool_.nodes().begin())});
    }
    return all;
  }

  // The best of the same clusters, cut anew, with a new node at its best place; and in small pools of a new
  // search. A change that no pool may have is passed over.
  void add(Explanation& found, const Remedy& remedy) const {
    try {
      const NodePool pool = pool_of(remedy.document);
      std::set<int> pinned;
      for (const auto& [pinned_node, pin] : options_.pins) pinned.insert(pinned_node);
      const ThroughputModel model(pool, planned_.costs, pinned);
      WhatIf what_if{.change = remedy.change,
                     .samples_per_second = model.throughput(planned_.machines).samples_per_second};
      if (remedy.new_node) {
        const auto place = best_position(model, options_, planned_.machines, *remedy.new_node,
                                         positions_to_try(model.nodes()));
        what_if.samples_per_second =
            place ? std::max(what_if.samples_per_second, place->samples_per_second) : 0;
      }
      if (pool.nodes().size() <= kMostNodesPlannedAnew) {
        SearchOptions quiet = options_;
        quiet.progress = {};
        quiet.seconds = std::min(options_.seconds.value_or(kSecondsOfSearch), kSecondsOfSearch);
        const Grouping anew = find_clusters(model, quiet);
        const double reached = refined_throughput(model, anew.clusters).samples_per_second;
        what_if.planned_anew = reached > what_if.samples_per_second;
        what_if.samples_per_second = std::max(what_if.samples_per_second, reached);
      }
      what_if.samples_per_second *= rate_of_chunks_;
      what_if.samples_per_second =
          std::max(what_if.samples_per_second, planned_.plan.predicted_samples_per_second);
      found.what_if.push_back(std::move(what_if));
    } catch (const ConfigError&) {
    }
  }

  const Json& document_;  // all of the caller
  const std::set<std::string>& excluded_;
  const SearchOptions& options_;
  const Planned& planned_;
  const NodePool pool_;
  const double rate_of_chunks_ = rate_of_chunks();
};

}  // namespace

Explanation explain(const Json& pool_document, const std::set<std::string>& excluded,
                    const SearchOptions& options, const Planned& planned, const Bottleneck& bottleneck) {
  return Explainer(pool_document, excluded, options, planned).run(bottleneck);
}

std::string describe_explanation(const Explanation& explanation) {
  const double reached = explanation.samples_per_second;
  std::string text = fmt::format(
      "Why: {} samples/s are {} of the {} that the arithmetic of all machines would allow "
      "without any waiting, and {} of a bound that no plan of this pool can pass.\nBottleneck: {}.\n",
      rate_text(reached), percent_text(reached / explanation.arithmetic_samples_per_second),
      rate_text(explanation.arithmetic_samples_per_second),
      percent_text(reached / explanation.reachable_samples_per_second), explanation.bottleneck.text);
  for (const WhatIf& what_if : explanation.what_if) {
    const double gain = what_if.samples_per_second / explanation.samples_per_second - 1;
    text += fmt::format(
        "With {}: {}.\n", what_if.change,
        gain > 1e-5 ? fmt::format("at least {} samples/s, {} more{}", rate_text(what_if.samples_per_second),
                                  percent_text(gain), what_if.planned_anew ? " with another plan" : "")
                    : std::string("no gain found"));
  }
  return text;
}

OrderedJson to_json(const Explanation& explanation) {
  OrderedJson what_if = OrderedJson::array();
  for (const WhatIf& one : explanation.what_if) {
    what_if.push_back({{"change", one.change},
                       {"samples_per_second", one.samples_per_second},
                       {"planned_anew", one.planned_anew}});
  }
  const Bottleneck& worst = explanation.bottleneck;
  return {{"reachable_samples_per_second", explanation.reachable_samples_per_second},
          {"bottleneck",
           {{"kind", name_of(worst.kind)},
            {"cluster", worst.cluster},
            {"stage", worst.stage},
            {"to_stage", worst.to_stage},
            {"seconds", worst.seconds},
            {"share", worst.share},
            {"text", worst.text}}},
          {"what_if", what_if}};
}

}  // namespace rookery
