#include "clusterize/report/bottleneck.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "clusterize/report/averaging_text.hpp"
#include "clusterize/report/simulation_report.hpp"
#include "clusterize/simulation/critical_path.hpp"
#include "clusterize/simulation/simulation.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

using Kind = Bottleneck::Kind;

const PoolNode& node_of(const NodePool& pool, const Planned& planned, int cluster, int stage) {
  return pool.node(planned.members[cluster][stage]);
}

std::string text_of(const NodePool& pool, const Planned& planned, const Bottleneck& worst) {
  const PoolNode& own = node_of(pool, planned, worst.cluster, worst.stage);
  switch (worst.kind) {
    case Kind::kNode:
      return fmt::format("the work of node_{} ({:g} GFLOP/s{})", own.id,
                         own.gflops.value_or(planned.costs.assumed_gflops(own.threads.value_or(1))),
                         own.gflops ? "" : ", assumed");
    case Kind::kLink: {
      const auto& members = planned.members[worst.cluster];
      const LinkSpeed link = pool.link(members[worst.stage], members[worst.to_stage]);
      return fmt::format("the link between node_{} and node_{} ({:g} ms, {:g} Mbit/s)", own.id,
                         node_of(pool, planned, worst.cluster, worst.to_stage).id, link.latency_ms,
                         link.bandwidth_mbps);
    }
    case Kind::kConnection:
      return fmt::format("the connection of node_{} ({:g} Mbit/s)", own.id,
                         pool.connection_mbps(static_cast<int>(&own - pool.nodes().data())));
    case Kind::kUpdate:
      return fmt::format("the update of the parameters on node_{}", own.id);
    case Kind::kExchange:
      return "what the stages exchange when a step ends";
    case Kind::kAveraging:
      return fmt::format("the averaging between clusters ({})", averaging_text(planned.plan.averaging));
  }
  return {};
}

// The seconds of a critical path, by the machines and links that they went through. A machine is called by
// its first stage, which has its number.
class Shares {
 public:
  Shares(const StepProgram& program, const StepTrace& trace)
      : program_(program), spans_(program.messages.size()), load_(program.connections.size(), 0) {
    for (const MessageSpan& span : trace.messages) spans_[span.message] = span;
    for (const ProgramMessage& message : program.messages) {
      const FlowWay& way = program.ways[message.way];
      for (const int end : {way.from, way.to}) load(end) += message.bytes / program.connections[end];
    }
  }

  // `seconds`: how much of the part counts.
  void add(const PathPart& part, double seconds) {
    if (part.message) return add_message(*part.message, seconds, part.end - part.begin);
    const int machine = machine_of(part.node);
    seconds_[{Kind::kNode, machine, 0}] += seconds;
    if (part.work == Work::kUpdate) updates_[machine] += seconds;
  }

  // The largest, without its cluster and text.
  Bottleneck worst() const {
    Bottleneck worst;
    for (const auto& [place, seconds] : seconds_) {
      if (seconds <= worst.seconds) continue;
      const auto [kind, stage, to_stage] = place;
      worst = {.kind = kind, .stage = stage, .to_stage = to_stage, .seconds = seconds};
    }
    const auto updates = updates_.find(worst.stage);
    if (worst.kind == Kind::kNode && updates != updates_.end() && updates->second > worst.seconds / 2)
      worst.kind = Kind::kUpdate;
    return worst;
  }

 private:
  double& load(int connection) { return load_[connection]; }
  int machine_of(int stage) const { return program_.machine(static_cast<std::size_t>(stage)); }

  // `whole`: from its sending to its arrival.
  void add_message(int number, double seconds, double whole) {
    const auto at = static_cast<std::size_t>(number);
    const ProgramMessage& message = program_.messages[at];
    if (message.use != MessageUse::kActivation && message.use != MessageUse::kGradient) {
      seconds_[{Kind::kExchange, 0, 0}] += seconds;
      return;
    }
    const int from = machine_of(message.from);
    const int to = machine_of(message.to);
    if (from == to) {
      seconds_[{Kind::kNode, from, 0}] += seconds;
      return;
    }
    const FlowWay& way = program_.ways[message.way];
    const MessageSpan& span = spans_[at];
    const double sending = span.sent - span.begin;
    const double alone = message.bytes / way.bytes_per_second;
    const double in_company = sending > alone ? 1 - alone / sending : 0;
    // Those before it on the way were sent as slowly; nothing but its latency is not.
    const double crowded = seconds * in_company * (1 - way.latency / whole);
    const int busier = load(way.from) >= load(way.to) ? from : to;
    seconds_[{Kind::kConnection, busier, 0}] += crowded;
    seconds_[{Kind::kLink, std::min(from, to), std::max(from, to)}] += seconds - crowded;
  }

  const StepProgram& program_;                            // of the caller
  std::vector<MessageSpan> spans_;                        // by message
  std::vector<double> load_;                              // by connection: seconds that it carries something
  std::map<std::tuple<Kind, int, int>, double> seconds_;  // by machine, of a link both
  std::map<int, double> updates_;                         // of these, by machine
};

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

Bottleneck find_bottleneck(const TrainingTask& task, const NodePool& pool, const Planned& planned) {
  const std::vector<PlannedCluster>& clusters = planned.plan.clusters;
  const auto slowest = std::ranges::max_element(clusters, {}, &PlannedCluster::simulated_step_ms);
  const auto cluster = static_cast<std::size_t>(slowest - clusters.begin());
  const PipelineModel model = pipeline_model(task, pool, planned, cluster);
  const std::size_t micro_batches = micro_batch_sizes(task.settings, task.settings.batch_size).size();
  const StepProgram program =
      program_of_full_batches(task.settings, model, batches_to_simulate(model, micro_batches));
  StepTrace trace;
  const FullSpan full = full_span(simulate_step(program, {}, &trace), batches_to_fill(model, micro_batches));
  Shares shares(program, trace);
  for (const PathPart& part : critical_path(program, trace)) {
    const double seconds = std::min(part.end, full.end) - std::max(part.begin, full.begin);
    if (seconds > 0) shares.add(part, seconds / full.steps);
  }
  Bottleneck worst = shares.worst();
  const double averaging = averaging_seconds(task, pool, planned, full.step_seconds());
  if (averaging > worst.seconds) worst = {.kind = Kind::kAveraging, .seconds = averaging};
  worst.cluster = static_cast<int>(cluster);
  const double step = full.step_seconds() + averaging;
  worst.share = std::min(1.0, worst.seconds / step);
  worst.text = fmt::format("{}: {} of the critical path of a step of cluster {} ({} of {})",
                           text_of(pool, planned, worst), percent_text(worst.share), cluster,
                           duration_text(worst.seconds), duration_text(step));
  return worst;
}

}  // namespace rookery
