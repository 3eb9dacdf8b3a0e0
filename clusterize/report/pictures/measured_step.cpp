#include "clusterize/report/pictures/measured_step.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

struct Span {
  double begin = std::numeric_limits<double>::infinity();
  double end = 0;

  void cover(const Span& other) {
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  }
};

// Its whole steps: those of which forwards and updates of all micro-batches are there.
std::map<std::int64_t, Span> whole_steps(const ReadTrace& trace, int micro_batches) {
  struct SeenStep {
    Span span;
    int forwards = 0, updates = 0;
  };
  std::map<std::int64_t, SeenStep> found;
  for (const auto& [action, begin, end] : trace.actions) {
    SeenStep& step = found[action.batch];
    step.span.cover({begin, end});
    step.forwards += action.kind == ActionKind::kForward ? 1 : 0;
    step.updates += action.kind == ActionKind::kUpdate ? 1 : 0;
  }
  std::map<std::int64_t, Span> whole;
  for (const auto& [step, of] : found)
    if (of.forwards == micro_batches && of.updates == 1) whole.emplace(step, of.span);
  return whole;
}

// By first step: from its beginning to the end of the last of so many, on all nodes.
std::map<std::int64_t, Span> common_steps(const std::vector<std::map<std::int64_t, Span>>& of_nodes,
                                          std::int64_t steps) {
  std::map<std::int64_t, Span> common;
  for (const auto& [first, unused] : of_nodes.front()) {
    std::optional<Span> span{Span()};
    for (const auto& own : of_nodes) {
      for (std::int64_t step = first; step < first + steps && span; ++step) {
        const auto found = own.find(step);
        if (found == own.end())
          span.reset();
        else
          span->cover(found->second);
      }
    }
    if (span) common.emplace(first, *span);
  }
  return common;
}

std::vector<ReadTrace> read_traces(const std::vector<std::filesystem::path>& files, const ClusterPlan& plan) {
  std::vector<ReadTrace> traces;
  std::set<std::string> nodes;
  for (const std::filesystem::path& file : files) {
    traces.push_back(read_trace(file));
    const TraceOwner& owner = traces.back().owner;
    if (owner.plan_id != plan.plan_id) {
      throw ConfigError(fmt::format(
          "{}: it is of a run of plan {}, and this is plan {}: give traces of providers of this plan",
          file.string(), owner.plan_id, plan.plan_id));
    }
    if (!nodes.insert(owner.node).second)
      throw ConfigError(fmt::format("{}: {} is there twice", file.string(), owner.node));
  }
  std::ranges::sort(traces, {},
                    [](const ReadTrace& trace) { return std::pair(trace.owner.cluster, trace.owner.stage); });
  return traces;
}

}  // namespace

MeasuredStep measured_step(const std::vector<std::filesystem::path>& files, const ClusterPlan& plan,
                           std::int64_t steps) {
  if (files.empty()) return {};
  const std::vector<ReadTrace> traces = read_traces(files, plan);
  std::vector<std::map<std::int64_t, Span>> of_nodes;
  for (const ReadTrace& trace : traces) of_nodes.push_back(whole_steps(trace, plan.micro_batches));
  const std::map<std::int64_t, Span> common = common_steps(of_nodes, steps);
  std::vector<std::pair<std::int64_t, Span>> all(common.begin(), common.end());
  if (all.empty()) {
    throw ConfigError(fmt::format(
        "{}: there {} of {} micro-batch{} that all traces have whole", files.front().string(),
        steps == 1 ? std::string("is no step") : fmt::format("are no {} steps one behind the other", steps),
        plan.micro_batches, plan.micro_batches == 1 ? "" : "es"));
  }
  const auto middle = all.begin() + std::ssize(all) / 2;
  std::ranges::nth_element(all, middle, {},
                           [](const auto& entry) { return entry.second.end - entry.second.begin; });
  const auto& [first, span] = *middle;
  MeasuredStep measured{.step = first, .steps = steps, .seconds = span.end - span.begin};
  for (const ReadTrace& trace : traces) {
    MeasuredRow& row = measured.rows.emplace_back(
        MeasuredRow{.node = trace.owner.node, .cluster = trace.owner.cluster, .stage = trace.owner.stage});
    for (TracedAction action : trace.actions) {
      if (action.action.batch < first || action.action.batch >= first + steps) continue;
      action.action.batch -= first;
      action.begin -= span.begin;
      action.end -= span.begin;
      row.actions.push_back(action);
    }
  }
  return measured;
}

}  // namespace rookery
