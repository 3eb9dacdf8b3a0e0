#include "models/graph/stage.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/graph/op_definition.hpp"

namespace rookery {
namespace {

// The type with kBatch where it changes with the batch; nothing when that is not its first
// dimension alone.
std::optional<TensorType> batch_type(const TensorType& of_two, const TensorType& of_three) {
  TensorType type = of_two;
  for (int axis = 0; axis < type.shape.rank(); ++axis) {
    if (of_two.shape[axis] == of_three.shape[axis]) continue;
    if (axis != 0 || of_two.shape[axis] != 2 || of_three.shape[axis] != 3) return std::nullopt;
    type.shape[axis] = kBatch;
  }
  return type;
}

// What the whole graph says about each of its values.
class Routing {
 public:
  Routing(const Graph& graph, std::span<const OpId> begins)
      : graph_(graph), of_two_(graph.types(2)), of_three_(graph.types(3)) {
    stage_of_op_.resize(graph.ops().size());
    for (std::size_t stage = 0; stage < begins.size(); ++stage) {
      const auto end = stage + 1 < begins.size() ? begins[stage + 1] : static_cast<OpId>(stage_of_op_.size());
      for (OpId op = begins[stage]; op < end; ++op) stage_of_op_[op] = static_cast<int>(stage);
    }
    find_users();
    find_gradients();
  }

  int stage_of(OpId op) const { return stage_of_op_[op]; }
  // Of a parameter: its owner.
  int producer_of(ValueId value) const {
    if (graph_.value(value).kind == ValueKind::kParameter) return *all_users(value).begin();
    const OpId op = graph_.value(value).producer;
    return op == kNoOp ? 0 : stage_of(op);
  }
  // Stages after the producer's that use the value.
  std::vector<int> users_of(ValueId value) const {
    std::vector<int> later;
    for (const int stage : all_users(value)) {
      if (stage != producer_of(value)) later.push_back(stage);
    }
    return later;
  }
  const std::set<int>& all_users(ValueId value) const {
    static const std::set<int> none;
    const auto found = users_.find(value);
    return found == users_.end() ? none : found->second;
  }
  TensorType type_of(ValueId value) const { return batch_type(of_two_[value], of_three_[value]).value(); }

  // The neighbours of `stage` on the way of the gradient of `value`: from the last user to the one
  // before it, … to the producer.
  int gradient_to(ValueId value, int stage) const { return before(gradient_chain(value), stage); }
  int gradient_from(ValueId value, int stage) const { return after(gradient_chain(value), stage); }

  // Nothing where this is the only stage that uses the parameter, or does not use it.
  std::optional<SharedParameter> shared(ValueId parameter, int stage) const {
    const std::set<int>& users = all_users(parameter);
    if (users.size() < 2 || !users.contains(stage)) return std::nullopt;
    return SharedParameter{.parameter = graph_.value(parameter).name,
                           .from = before(users, stage),
                           .to = after(users, stage),
                           .gradient_to = gradient_to(parameter, stage),
                           .gradient_from = gradient_from(parameter, stage)};
  }

 private:
  // The neighbours of `stage` in a chain of stages; kNoStage where there is none.
  template <typename Chain>
  static int before(const Chain& chain, int stage) {
    const auto here = std::ranges::find(chain, stage);
    return here == chain.end() || here == chain.begin() ? kNoStage : *std::prev(here);
  }
  template <typename Chain>
  static int after(const Chain& chain, int stage) {
    const auto here = std::ranges::find(chain, stage);
    return here == chain.end() || std::next(here) == chain.end() ? kNoStage : *std::next(here);
  }

  void find_users() {
    for (std::size_t op = 0; op < stage_of_op_.size(); ++op) {
      for (const ValueId input : graph_.ops()[op].inputs) {
        if (input != kNoValue) users_[input].insert(stage_of_op_[op]);
      }
    }
  }

  void find_gradients() {
    for (const auto& [value, users] : gradient_users(graph_)) {
      for (const OpId user : users) gradient_users_[value].insert(stage_of(user));
    }
  }

  // Producer first, then the stages that add to the gradient; empty when there is none.
  std::vector<int> gradient_chain(ValueId value) const {
    const auto found = gradient_users_.find(value);
    if (found == gradient_users_.end()) return {};
    std::vector<int> chain{producer_of(value)};
    for (const int stage : found->second) {
      if (stage != chain.front()) chain.push_back(stage);
    }
    return chain;
  }

  const Graph& graph_;  // outlives the Routing: both live in cut()
  std::vector<TensorType> of_two_, of_three_;
  std::vector<int> stage_of_op_;
  std::map<ValueId, std::set<int>> users_;
  std::map<ValueId, std::set<int>> gradient_users_;
};

// A value that needs the ops from `first` to `last` on one stage.
struct Bond {
  ValueId value = kNoValue;
  OpId first = 0, last = 0;
};

// The last op whose output a loss measures.
OpId last_measured(const Graph& graph) {
  OpId last = kNoOp;
  for (const Op& op : graph.ops()) {
    if (op_definition(op.type).is_loss) last = std::max(last, graph.value(op.inputs.at(0)).producer);
  }
  return last;
}

// By op: what keeps it on the stage of the op before it; nothing where a stage may begin.
std::vector<std::optional<Bond>> find_bonds(const Graph& graph) {
  const std::vector<TensorType> of_two = graph.types(2);
  const std::vector<TensorType> of_three = graph.types(3);
  std::vector<std::optional<Bond>> bonds(graph.ops().size());
  const OpId measured = last_measured(graph);
  std::map<ValueId, OpId> first_use;
  for (OpId last = 0; last < std::ssize(graph.ops()); ++last) {
    for (const ValueId input : graph.op(last).inputs) {
      if (input == kNoValue) continue;
      const ValueKind kind = graph.value(input).kind;
      if (kind != ValueKind::kActivation && (kind != ValueKind::kBuffer || graph.value(input).fixed))
        continue;
      const bool is_buffer = kind == ValueKind::kBuffer;
      const bool stays =
          op_definition(graph.op(last).type).is_loss && graph.value(input).producer == measured;
      if (!is_buffer && !stays && batch_type(of_two[input], of_three[input])) continue;
      const OpId first =
          is_buffer ? first_use.emplace(input, last).first->second : graph.value(input).producer;
      for (OpId op = first + 1; op <= last; ++op) bonds[op] = {input, first, last};
    }
  }
  return bonds;
}

std::string describe(const Bond& bond, const Graph& graph) {
  const Value& value = graph.value(bond.value);
  const Op& last = graph.op(bond.last);
  const char* why = value.kind == ValueKind::kBuffer   ? "both use the buffer"
                    : op_definition(last.type).is_loss ? "the loss stays with the op that makes"
                                                       : "only batches of samples can cross, not";
  return fmt::format(
      "'{}' and '{}' need one stage: {} '{}'; begin the stage at or before op {} or after op {}",
      graph.op(bond.first).name, last.name, why, value.name, bond.first, bond.last);
}

// The stage's parameters that it borrows, or those that it owns.
std::vector<ValueId> parameters_of(const Stage& stage, bool borrowed) {
  std::vector<ValueId> parameters;
  for (const ValueId id : stage.graph.parameters()) {
    const auto shared =
        std::ranges::find(stage.shared, stage.graph.value(id).name, &SharedParameter::parameter);
    const bool is_borrowed = shared != stage.shared.end() && shared->from != kNoStage;
    if (is_borrowed == borrowed) parameters.push_back(id);
  }
  return parameters;
}

// Copies the values and ops of one stage out of the whole graph.
class StageMaker {
 public:
  StageMaker(const Graph& whole, const Routing& routing, int index, int count)
      : whole_(whole), routing_(routing), stage_{.index = index, .count = count} {}

  Stage make() {
    if (stage_.is_root()) {
      for (const ValueId input : whole_.inputs()) add_input(input);
    }
    for (std::size_t i = 0; i < whole_.ops().size(); ++i) {
      if (routing_.stage_of(static_cast<OpId>(i)) == stage_.index) add_op(whole_.ops()[i]);
    }
    for (const ValueKind kind : {ValueKind::kActivation, ValueKind::kInput}) {
      for (std::size_t id = 0; id < whole_.values().size(); ++id) {
        if (whole_.values()[id].kind == kind) add_output(static_cast<ValueId>(id));
      }
    }
    for (const ValueId id : whole_.parameters()) {
      if (auto shared = routing_.shared(id, stage_.index)) stage_.shared.push_back(std::move(*shared));
    }
    return std::move(stage_);
  }

 private:
  void add_input(ValueId id) {
    const Value& value = whole_.value(id);
    copied_[id] = stage_.graph.add_input(value.name, routing_.type_of(id));
    const int from = stage_.is_root() ? kNoStage : routing_.producer_of(id);
    stage_.inputs.push_back(
        {.value = value.name,
         .from = from,
         .gradient_to = routing_.gradient_to(id, stage_.index),
         .gradient_from = from == kNoStage ? kNoStage : routing_.gradient_from(id, stage_.index)});
  }

  ValueId copy_of(ValueId id) {
    if (id == kNoValue) return kNoValue;
    if (const auto found = copied_.find(id); found != copied_.end()) return found->second;
    const Value& value = whole_.value(id);
    if (value.kind == ValueKind::kInput || value.kind == ValueKind::kActivation) {
      add_input(id);
    } else {
      copied_[id] = stage_.graph.add_source(value);
    }
    return copied_[id];
  }

  void add_op(const Op& op) {
    Op copy = op;
    copy.outputs.clear();
    for (ValueId& input : copy.inputs) input = copy_of(input);
    std::vector<std::string> names;
    for (const ValueId output : op.outputs) names.push_back(whole_.value(output).name);
    const OpId id = stage_.graph.add_op(std::move(copy), names);
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      copied_[op.outputs[i]] = stage_.graph.op(id).outputs[i];
  }

  void add_output(ValueId id) {
    if (routing_.producer_of(id) != stage_.index) return;
    const std::vector<int> users = routing_.users_of(id);
    const bool of_model = std::ranges::find(whole_.outputs(), id) != whole_.outputs().end();
    if (users.empty() && !of_model) return;
    stage_.graph.mark_output(copied_.at(id));
    stage_.outputs.push_back({.value = whole_.value(id).name,
                              .to = users,
                              .gradient_from = routing_.gradient_from(id, stage_.index)});
  }

  const Graph& whole_;  // both outlive the maker: they live in cut()
  const Routing& routing_;
  Stage stage_;
  std::map<ValueId, ValueId> copied_;
};

}  // namespace

std::map<ValueId, std::vector<OpId>> gradient_users(const Graph& graph) {
  const std::vector<TensorType> types = graph.types(2);
  const auto is_real = [&](ValueId value) { return value != kNoValue && is_floating(types[value].dtype); };
  std::set<ValueId> trained(graph.parameters().begin(), graph.parameters().end());
  for (const Op& op : graph.ops()) {
    if (!op_definition(op.type).differentiate) continue;
    if (std::ranges::any_of(op.inputs, [&](ValueId input) { return trained.contains(input); }))
      std::ranges::copy_if(op.outputs, std::inserter(trained, trained.end()), is_real);
  }
  std::set<ValueId> to_loss;
  std::map<ValueId, std::vector<OpId>> users;
  for (auto id = static_cast<OpId>(graph.ops().size()); id-- > 0;) {
    const Op& op = graph.op(id);
    const OpDefinition& definition = op_definition(op.type);
    const bool matters = definition.is_loss || std::ranges::any_of(op.outputs, [&](ValueId output) {
                           return to_loss.contains(output);
                         });
    if (!definition.differentiate || !matters) continue;
    for (const ValueId input : op.inputs) {
      if (!is_real(input)) continue;
      to_loss.insert(input);
      const ValueKind kind = graph.value(input).kind;
      if (trained.contains(input) && (kind == ValueKind::kActivation || kind == ValueKind::kParameter))
        users[input].push_back(id);
    }
  }
  return users;
}

std::vector<ValueId> Stage::owned_parameters() const {
  return parameters_of(*this, false);
}

std::vector<ValueId> Stage::borrowed_parameters() const {
  return parameters_of(*this, true);
}

std::vector<ValueId> Stage::owned_averaged_values() const {
  std::vector<ValueId> values = averaged_values(graph);
  const std::vector<ValueId> borrowed = borrowed_parameters();
  std::erase_if(values, [&](ValueId id) { return std::ranges::count(borrowed, id) > 0; });
  return values;
}

std::vector<ValueId> averaged_values(const Graph& graph) {
  std::vector<ValueId> values = graph.parameters();
  for (const ValueId id : graph.buffers()) {
    const Value& buffer = graph.value(id);
    if (!buffer.fixed && buffer.type.dtype == DType::kF32) values.push_back(id);
  }
  std::ranges::sort(values);
  return values;
}

GradientRequest Stage::gradient_request(const Graph& lowered) const {
  GradientRequest request;
  for (const StageInput& input : inputs) {
    if (input.gradient_to != kNoStage) request.inputs.insert(lowered.at(input.value));
    if (input.gradient_from != kNoStage) request.received.insert(lowered.at(input.value));
  }
  for (const StageOutput& output : outputs) {
    if (output.gradient_from != kNoStage) request.received.insert(lowered.at(output.value));
  }
  return request;
}

std::vector<OpId> cut_positions(const Graph& graph) {
  const std::vector<std::optional<Bond>> bonds = find_bonds(graph);
  std::vector<OpId> positions;
  for (std::size_t p = 1; p < bonds.size(); ++p) {
    if (!bonds[p]) positions.push_back(static_cast<OpId>(p));
  }
  return positions;
}

std::vector<Stage> cut(const Graph& graph, std::span<const OpId> begins) {
  if (begins.empty() || begins[0] != 0) throw ConfigError("the first stage must begin with the first op");
  const std::vector<std::optional<Bond>> bonds = find_bonds(graph);
  for (std::size_t stage = 1; stage < begins.size(); ++stage) {
    const OpId begin = begins[stage];
    if (begin <= begins[stage - 1] || begin >= std::ssize(bonds)) {
      throw ConfigError(fmt::format("stage {} cannot begin at op {} of {}: the stage before begins at {}",
                                    stage, begin, bonds.size(), begins[stage - 1]));
    }
    if (const std::optional<Bond>& bond = bonds[begin]) {
      throw ConfigError(fmt::format("stage {} cannot begin at op {} ('{}'): there is no legal cut: {}", stage,
                                    begin, graph.op(begin).name, describe(*bond, graph)));
    }
  }
  const Routing routing(graph, begins);
  std::vector<Stage> stages;
  for (std::size_t stage = 0; stage < begins.size(); ++stage) {
    stages.push_back(
        StageMaker(graph, routing, static_cast<int>(stage), static_cast<int>(begins.size())).make());
  }
  return stages;
}

}  // namespace rookery
