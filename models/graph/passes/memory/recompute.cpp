#include "models/graph/passes/memory/recompute.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "models/graph/passes/memory/memory_plan.hpp"

namespace rookery {
namespace {

// Which section each op belongs to: forward ops by position, gradient ops with the forward op that they name,
// or, where that has become part of another, with the gradient op that follows.
std::vector<int> sections_of_ops(const TrainingGraph& training, const Sections& sections) {
  const std::vector<Op>& ops = training.graph.ops();
  std::vector<int> of_op(ops.size(), 0);
  std::map<std::string, int> by_name;
  int position = 0;
  for (std::size_t op = 0; op < ops.size(); ++op) {
    if (training.phases[op] != Phase::kForward) continue;
    const auto next = std::ranges::upper_bound(sections.begins, position++);
    of_op[op] = static_cast<int>(next - sections.begins.begin()) - 1;
    by_name.emplace(ops[op].name, of_op[op]);
  }
  int section = 0;
  for (std::size_t op = ops.size(); op-- > 0;) {
    if (training.phases[op] == Phase::kForward) continue;
    const auto found = by_name.find(ops[op].text("forward", ""));
    if (found != by_name.end()) section = found->second;
    of_op[op] = section;
  }
  return of_op;
}

// Writes the graph anew.
class Rewriter {
 public:
  Rewriter(const TrainingGraph& from, const Sections& sections)
      : from_(from),
        graph_(from.graph),
        sections_(sections),
        section_of_(sections_of_ops(from, sections)),
        first_(graph_.values().size(), kNoValue) {
    for (std::size_t op = 0; op < graph_.ops().size(); ++op) keep_what_comes_from_elsewhere(op);
  }

  RecomputedGraph run() {
    for (std::size_t id = 0; id < graph_.values().size(); ++id) {
      const Value& value = graph_.values()[id];
      if (value.producer == kNoOp && value.like == kNoValue) add_source(static_cast<ValueId>(id));
    }
    for (std::size_t op = 0; op < section_of_.size(); ++op) {
      if (from_.phases[op] == Phase::kForward) add_op(op, Phase::kForward);
    }
    for (const ValueId input : graph_.inputs()) {
      if (graph_.value(input).like != kNoValue) add_source(input);
    }
    latest_ = first_;
    for (int section = static_cast<int>(sections_.begins.size()); section-- > 0;) add_backward(section);
    for (const ValueId output : graph_.outputs()) made_.training.graph.mark_output(first_[output]);
    for (const auto& [parameter, uses] : from_.parameter_gradients) {
      std::vector<ValueId>& made = made_.training.parameter_gradients[first_[parameter]];
      for (const ValueId gradient : uses) made.push_back(first_[gradient]);
    }
    for (const ValueId parameter : from_.updated_in_backward)
      made_.training.updated_in_backward.insert(first_[parameter]);
    for (const auto map : {&TrainingGraph::sent_gradients, &TrainingGraph::received_gradients}) {
      for (const auto& [value, gradient] : from_.*map)
        (made_.training.*map).emplace(first_[value], first_[gradient]);
    }
    return std::move(made_);
  }

 private:
  bool is_forward(std::size_t op) const { return from_.phases[op] == Phase::kForward; }
  bool is_run_again(int section) const {
    return !sections_.keeps_last || section + 1 < std::ssize(sections_.begins);
  }

  // Is it still there when gradients are computed?
  bool is_kept(ValueId value) const {
    const ValueId owner = memory_owner(graph_, value);
    return graph_.value(owner).producer == kNoOp || kept_.contains(owner);
  }

  void keep_what_comes_from_elsewhere(std::size_t op) {
    for (const ValueId input : graph_.ops()[op].inputs) {
      if (input == kNoValue || is_kept(input)) continue;
      const ValueId owner = memory_owner(graph_, input);
      if (section_of_[graph_.value(owner).producer] != section_of_[op]) kept_.insert(owner);
    }
  }

  void add_source(ValueId id) {
    const Value& value = graph_.value(id);
    Graph& graph = made_.training.graph;
    if (value.like != kNoValue) {
      first_[id] = graph.add_input_like(value.name, first_[value.like]);
    } else {
      first_[id] = graph.add_source(value);
    }
    made_.values.push_back(id);
  }

  // The op as it is, reading what was made latest.
  void add_op(std::size_t id, Phase phase) {
    const Op& op = graph_.ops()[id];
    const OpId made = append(op, op.name, id, phase, is_forward(id) ? first_ : latest_);
    for (const ValueId output : op.outputs) {
      if (output == kNoValue || graph_.value(output).producer != static_cast<OpId>(id)) {
        made_.training.graph.op(made).outputs.push_back(output == kNoValue ? kNoValue : first_[output]);
        continue;
      }
      const Value& value = graph_.value(output);
      const ValueId like = value.like == kNoValue ? kNoValue : first_[value.like];
      first_[output] = made_.training.graph.add_output_like(made, value.name, like);
      made_.values.push_back(output);
      if (!is_forward(id)) latest_[output] = first_[output];
    }
  }

  void add_again(std::size_t id) {
    const Op& op = graph_.ops()[id];
    Graph& graph = made_.training.graph;
    const OpId made =
        append(op, graph.unused_op_name(op.name + ".again"), id, Phase::kBackwardInputs, latest_);
    graph.op(made).attributes["forward"] = op.name;
    for (const ValueId output : op.outputs) {
      if (output == kNoValue || graph_.value(output).producer != static_cast<OpId>(id)) {
        graph.op(made).outputs.push_back(kNoValue);
        continue;
      }
      const std::string name = graph.unused_value_name(graph_.value(output).name + ".again");
      const ValueId again = graph.add_output_like(made, name, first_[output]);
      made_.values.push_back(output);
      if (!is_kept(output)) latest_[output] = again;
    }
  }

  OpId append(const Op& op, const std::string& name, std::size_t id, Phase phase,
              const std::vector<ValueId>& sources) {
    Op copy{.name = name, .type = op.type, .inputs = op.inputs, .outputs = {}, .attributes = op.attributes};
    for (ValueId& input : copy.inputs) {
      if (input != kNoValue) input = sources[input];
    }
    made_.training.phases.push_back(phase);
    made_.ops.push_back(static_cast<OpId>(id));
    return made_.training.graph.add_op(std::move(copy), {});
  }

  // Forward ops of the section that its gradient ops need again.
  std::set<std::size_t> needed_again(int section) const {
    std::set<std::size_t> ops;
    if (!is_run_again(section)) return ops;
    for (std::size_t op = section_of_.size(); op-- > 0;) {
      if (section_of_[op] != section || (is_forward(op) && !ops.contains(op))) continue;
      for (const ValueId input : graph_.ops()[op].inputs) {
        if (input == kNoValue || is_kept(input)) continue;
        const OpId producer = graph_.value(input).producer;
        if (producer != kNoOp && is_forward(producer)) ops.insert(producer);
      }
    }
    return ops;
  }

  void add_backward(int section) {
    for (const std::size_t op : needed_again(section)) add_again(op);
    for (std::size_t op = 0; op < section_of_.size(); ++op) {
      if (is_forward(op) || section_of_[op] != section) continue;
      add_op(op, section == 0 ? from_.phases[op] : Phase::kBackwardInputs);
    }
  }

  const TrainingGraph& from_;  // all outlive the rewriter: they live in recompute()
  const Graph& graph_;
  const Sections& sections_;
  std::vector<int> section_of_;  // by OpId
  std::set<ValueId> kept_;       // owners of memory that several sections read
  std::vector<ValueId> first_;   // by ValueId: where it was made first
  std::vector<ValueId> latest_;  // and last
  RecomputedGraph made_;
};

// Bytes that pass each position among the forward ops, and bytes that the ops before it make.
struct Profile {
  std::vector<std::size_t> passing, made;
};

Profile profile_of(const TrainingGraph& training, std::span<const TensorType> types) {
  const Graph& graph = training.graph;
  std::vector<OpId> ops;  // forward, by position
  std::vector<std::size_t> position(graph.ops().size());
  for (std::size_t op = 0; op < graph.ops().size(); ++op) {
    if (training.phases[op] != Phase::kForward) continue;
    position[op] = ops.size();
    ops.push_back(static_cast<OpId>(op));
  }
  Profile profile{.passing = std::vector<std::size_t>(ops.size() + 1, 0),
                  .made = std::vector<std::size_t>(ops.size() + 1, 0)};
  std::map<ValueId, std::size_t> last_reader;  // by owner of the memory
  for (std::size_t here = 0; here < ops.size(); ++here) {
    for (const ValueId input : graph.op(ops[here]).inputs) {
      if (input != kNoValue) last_reader[memory_owner(graph, input)] = here;
    }
    profile.made[here + 1] = profile.made[here];
    for (const ValueId output : graph.op(ops[here]).outputs) {
      if (output == kNoValue || graph.value(output).producer != ops[here]) continue;
      if (memory_owner(graph, output) == output) profile.made[here + 1] += types[output].bytes();
    }
  }
  for (const auto& [value, last] : last_reader) {
    const OpId producer = graph.value(value).producer;
    if (producer == kNoOp) continue;
    for (std::size_t p = position[producer] + 1; p <= last; ++p) profile.passing[p] += types[value].bytes();
  }
  return profile;
}

// Sections that make about `bytes` each, cut in their last half where least passes.
std::vector<OpId> cut_into_sections(const Profile& profile, std::size_t bytes) {
  std::vector<OpId> begins{0};
  const std::size_t count = profile.made.size() - 1;
  for (std::size_t begin = 0;;) {
    std::size_t best = count;
    for (std::size_t p = begin + 1; p < count; ++p) {
      const std::size_t made = profile.made[p] - profile.made[begin];
      if (made > bytes && best < count) break;
      if (2 * made >= bytes && (best == count || profile.passing[p] <= profile.passing[best])) best = p;
    }
    if (best == count) return begins;
    begins.push_back(static_cast<OpId>(best));
    begin = best;
  }
}

// Different ways to cut, coarse ones first.
std::vector<Sections> all_sections(const TrainingGraph& training, std::span<const TensorType> types) {
  const Profile profile = profile_of(training, types);
  std::vector<Sections> result;
  for (const std::size_t parts : {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48}) {
    const std::vector<OpId> begins = cut_into_sections(profile, profile.made.back() / parts);
    if (!result.empty() && result.back().begins == begins) continue;
    result.push_back({.begins = begins, .keeps_last = false});
    result.push_back({.begins = begins, .keeps_last = true});
  }
  return result;
}

RecomputedGraph unchanged(const TrainingGraph& training) {
  RecomputedGraph same{.training = training,
                       .values = std::vector<ValueId>(training.graph.values().size()),
                       .ops = std::vector<OpId>(training.graph.ops().size())};
  std::iota(same.values.begin(), same.values.end(), 0);
  std::iota(same.ops.begin(), same.ops.end(), 0);
  return same;
}

}  // namespace

RecomputedGraph recompute(const TrainingGraph& training, const Sections& sections) {
  ROOKERY_CHECK(
      !sections.begins.empty() && sections.begins[0] == 0 && std::ranges::is_sorted(sections.begins),
      "{} sections that do not begin at the first op", sections.begins.size());
  return Rewriter(training, sections).run();
}

Recomputation::Recomputation(const TrainingGraph& training, std::span<const TensorType> types,
                             std::span<const std::size_t> scratch_bytes, StepShape step)
    : training_(training), types_(types), scratch_bytes_(scratch_bytes), step_(step) {
  same_ = plan(unchanged(training));
  if (training.graph.ops().empty()) return;
  for (Sections& sections : all_sections(training, types))
    candidates_.push_back({.sections = std::move(sections), .demand = {}, .planned = {}});
}

Recomputation::Planned Recomputation::plan(RecomputedGraph graph) const {
  MemoryPlan plan = plan_memory(graph.training, taken_from(types_, graph.values),
                                taken_from(scratch_bytes_, graph.ops), step_);
  return {.graph = std::move(graph), .plan = std::move(plan)};
}

const MemoryDemand& Recomputation::demand(Candidate& candidate) const {
  if (!candidate.demand) {
    const RecomputedGraph made = recompute(training_, candidate.sections);
    candidate.demand = memory_demand(made.training, taken_from(types_, made.values),
                                     taken_from(scratch_bytes_, made.ops), step_);
  }
  return *candidate.demand;
}

const Recomputation::Planned& Recomputation::planned(Candidate& candidate) const {
  if (!candidate.planned) candidate.planned = plan(recompute(training_, candidate.sections));
  return *candidate.planned;
}

const Recomputation::Planned& Recomputation::best(int slots) {
  const auto in_flight = static_cast<std::size_t>(slots);
  Candidate* best = nullptr;
  std::size_t best_bytes = std::numeric_limits<std::size_t>::max();
  for (Candidate& candidate : candidates_) {
    // With one micro-batch in flight, what the last section makes is there anyway when backward begins.
    if (slots == 1 && !candidate.sections.keeps_last) continue;
    const MemoryDemand& needed = demand(candidate);
    const std::size_t bytes = needed.stash_bytes * (in_flight - 1) + needed.live_bytes;
    if (bytes >= best_bytes) continue;
    best_bytes = bytes;
    best = &candidate;
  }
  if (best == nullptr) return same_;
  const auto bytes_of = [&](const MemoryPlan& plan) {
    return plan.stash_bytes * in_flight + plan.transient_bytes;
  };
  const Planned& found = planned(*best);
  return bytes_of(found.plan) < bytes_of(same_.plan) ? found : same_;
}

}  // namespace rookery
