#include "clusterize/bottleneck.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "clusterize/simulation_report.hpp"
#include "clusterize/step_parts.hpp"

namespace rookery {
namespace {

using Kind = Bottleneck::Kind;

const PoolNode& node_of(const NodePool& pool, const Planned& planned, int cluster, int stage) {
  return pool.nodes()[static_cast<std::size_t>(
      planned.members[static_cast<std::size_t>(cluster)][static_cast<std::size_t>(stage)])];
}

std::string text_of(const NodePool& pool, const ModelCosts& costs, const Planned& planned,
                    const Bottleneck& worst) {
  const PoolNode& own = node_of(pool, planned, worst.cluster, worst.stage);
  switch (worst.kind) {
    case Kind::kNode:
      return fmt::format("the work of node_{} ({:g} GFLOP/s{})", own.id,
                         own.gflops.value_or(costs.assumed_gflops), own.gflops ? "" : ", assumed");
    case Kind::kLink: {
      const auto& members = planned.members[static_cast<std::size_t>(worst.cluster)];
      const auto at = static_cast<std::size_t>(worst.stage);
      const LinkSpeed link =
          pool.link(static_cast<std::size_t>(members[at]), static_cast<std::size_t>(members[at + 1]));
      return fmt::format("the link between node_{} and node_{} ({:g} ms, {:g} Mbit/s)", own.id,
                         node_of(pool, planned, worst.cluster, worst.stage + 1).id, link.latency_ms,
                         link.bandwidth_mbps);
    }
    case Kind::kConnection:
      return fmt::format("the connection of node_{} ({:g} Mbit/s)", own.id,
                         pool.connection_mbps(static_cast<std::size_t>(&own - pool.nodes().data())));
    case Kind::kUpdate:
      return "the update of the parameters";
    case Kind::kExchange:
      return "what the stages exchange when a step ends";
    case Kind::kAveraging:
      return "the averaging between clusters";
  }
  return {};
}

}  // namespace

const char* name_of(Bottleneck::Kind kind) {
  switch (kind) {
    case Kind::kNode:
      return "node";
    case Kind::kLink:
      return "link";
    case Kind::kConnection:
      return "connection";
    case Kind::kUpdate:
      return "update";
    case Kind::kExchange:
      return "exchange";
    case Kind::kAveraging:
      return "averaging";
  }
  return "";
}

Bottleneck find_bottleneck(const NodePool& pool, const ModelCosts& costs, const Planned& planned) {
  const auto slowest = std::ranges::max_element(planned.cuts, {}, &InnerCut::step_seconds);
  const auto cluster = static_cast<int>(slowest - planned.cuts.begin());
  const CostModel model(pool, costs);
  const StepParts parts = step_parts(model, planned.members[static_cast<std::size_t>(cluster)], *slowest);
  const double averaging = planned.plan.predicted_averaging_ms / 1e3;
  // What a part of the round trip, and what sets the period, count for.
  const bool is_async = !is_synchronous(costs.schedule);
  const double in_round_trip = is_async ? 0 : 1;
  const double waits = (is_async ? 1 : costs.micro_batches - 1) * parts.period;
  Bottleneck worst;
  const auto raise = [&](Kind kind, int stage, double seconds) {
    if (seconds <= worst.seconds) return;
    worst = {.kind = kind, .cluster = cluster, .stage = stage, .seconds = seconds};
  };
  const auto first = static_cast<std::size_t>(parts.limit_stage);
  const auto last = static_cast<std::size_t>(parts.limit_last);
  double waited_for = 0;  // where micro-batches in flight are the limit: all between these stages
  for (std::size_t at = first; at <= last; ++at)
    waited_for += parts.work[at] + (at < last ? parts.transfers[at] : 0);
  // `is_between`: of a node, or of a link to the next one.
  const auto spread = [&](double seconds, PeriodLimit limit, int stage, bool is_between) {
    if (parts.limit == PeriodLimit::kInFlight)
      return seconds * (in_round_trip + (is_between ? waits / waited_for : 0));
    return seconds * in_round_trip + (parts.limit == limit && parts.limit_stage == stage ? waits : 0);
  };
  for (int stage = 0; stage < std::ssize(parts.work); ++stage) {
    const auto at = static_cast<std::size_t>(stage);
    raise(Kind::kNode, stage, spread(parts.work[at], PeriodLimit::kNode, stage, first <= at && at <= last));
    raise(Kind::kLink, stage,
          spread(parts.transfers[at], PeriodLimit::kLink, stage, first <= at && at < last));
    if (parts.limit == PeriodLimit::kConnection && parts.limit_stage == stage)
      raise(Kind::kConnection, stage, waits);
  }
  if (!is_async) raise(Kind::kUpdate, 0, parts.update);
  raise(Kind::kExchange, 0, parts.exchange);
  raise(Kind::kAveraging, 0, averaging);
  worst.share = worst.seconds / (slowest->step_seconds + averaging);
  worst.text = fmt::format("{}: {:.3g}% of a step of cluster {} ({} of {})",
                           text_of(pool, costs, planned, worst), 100 * worst.share, cluster,
                           duration_text(worst.seconds), duration_text(slowest->step_seconds + averaging));
  return worst;
}

}  // namespace rookery
