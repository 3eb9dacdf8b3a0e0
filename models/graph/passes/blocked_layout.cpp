#include "models/graph/passes/blocked_layout.hpp"

#include <map>

#include "models/base/libraries/format.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/graph/op_definition.hpp"

namespace rookery {
namespace {

// An input of an op, in the order in which ops use values.
struct Use {
  OpId op = kNoOp;
  std::size_t input = 0;
  auto operator<=>(const Use&) const = default;
};

class Pass {
 public:
  Pass(const Graph& forward, const std::set<std::string>& ops, const std::set<ValueId>& received)
      : forward_(forward), types_(forward.types(2)), copies_(forward.values().size()) {
    for (const Op& op : forward.ops()) {
      blocked_ops_.push_back(ops.contains(op.name) && op_definition(op.type).takes_image(0));
    }
    find_shared(received);
  }

  Graph run() {
    for (std::size_t id = 0; id < forward_.values().size(); ++id) {
      const Value& value = forward_.values()[id];
      if (value.producer == kNoOp) copies_[id].plain = result_.add_source(value);
    }
    for (std::size_t i = 0; i < forward_.ops().size(); ++i) copy_op(static_cast<OpId>(i));
    for (const ValueId output : forward_.outputs()) {
      result_.mark_output(is_made_blocked(output) ? shared_copy(output) : copies_[output].plain);
    }
    return std::move(result_);
  }

 private:
  struct Copies {
    ValueId plain = kNoValue;
    ValueId blocked = kNoValue;
    std::set<Use> shared;  // uses that take the one conversion
  };

  bool is_made_blocked(ValueId value) const {
    const OpId producer = forward_.value(value).producer;
    return producer != kNoOp && blocked_ops_[producer];
  }

  // Does the op take this input in blocks? Where the channels make none (the first convolution's), not.
  bool takes_blocked(const Use& use) const {
    const Op& op = forward_.op(use.op);
    if (!blocked_ops_[use.op] || !op_definition(op.type).takes_image(use.input)) return false;
    const Shape& shape = types_[op.inputs[use.input]].shape;
    return shape.rank() == 4 && shape[1] % kChannelBlock == 0;
  }

  // The last uses of a value may share a conversion: their gradients are the first in the sum, unless one
  // that arrives is before them.
  void find_shared(const std::set<ValueId>& received) {
    std::map<ValueId, std::vector<Use>> uses;
    for (std::size_t i = 0; i < forward_.ops().size(); ++i) {
      const Op& op = forward_.ops()[i];
      for (std::size_t k = 0; k < op.inputs.size(); ++k)
        if (op.inputs[k] != kNoValue) uses[op.inputs[k]].push_back({static_cast<OpId>(i), k});
    }
    for (const auto& [value, all] : uses) {
      if (received.contains(value) && !is_made_blocked(value)) continue;
      for (std::size_t i = all.size(); i-- > 0;) {
        if (takes_blocked(all[i]) == is_made_blocked(value)) break;
        copies_[value].shared.insert(all[i]);
      }
    }
  }

  void copy_op(OpId id) {
    Op op = forward_.op(id);
    const std::vector<ValueId> outputs = op.outputs;
    op.outputs.clear();
    for (std::size_t k = 0; k < op.inputs.size(); ++k) op.inputs[k] = operand({id, k}, op.inputs[k]);
    const bool blocked = blocked_ops_[id];
    if (blocked) op.attributes["blocked"] = std::int64_t{1};
    std::vector<std::string> names;
    for (const ValueId output : outputs)
      names.push_back(forward_.value(output).name + (blocked ? ".blocked" : ""));
    const OpId copy = result_.add_op(std::move(op), names);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      Copies& made = copies_[outputs[k]];
      (blocked ? made.blocked : made.plain) = result_.op(copy).outputs[k];
    }
  }

  ValueId operand(const Use& use, ValueId value) {
    if (value == kNoValue) return kNoValue;
    const Copies& copies = copies_[value];
    if (takes_blocked(use) == is_made_blocked(value))
      return is_made_blocked(value) ? copies.blocked : copies.plain;
    if (copies.shared.contains(use)) return shared_copy(value);
    const std::string name = forward_.value(value).name;
    return converted(value, fmt::format("{}.for.{}.{}", name, forward_.op(use.op).name, use.input));
  }

  // The value in the layout that its producer does not make it in. Plain, it has its own name.
  ValueId shared_copy(ValueId value) {
    Copies& copies = copies_[value];
    const bool from_blocked = is_made_blocked(value);
    ValueId& copy = from_blocked ? copies.plain : copies.blocked;
    if (copy == kNoValue)
      copy = converted(value, forward_.value(value).name + (from_blocked ? "" : ".blocked"));
    return copy;
  }

  ValueId converted(ValueId value, const std::string& name) {
    const bool from_blocked = is_made_blocked(value);
    const std::string type = from_blocked ? "FromBlocked" : "ToBlocked";
    const Copies& copies = copies_[value];
    const OpId op = result_.add_op({.name = name + "." + type,
                                    .type = type,
                                    .inputs = {from_blocked ? copies.blocked : copies.plain},
                                    .outputs = {},
                                    .attributes = {}},
                                   {name});
    return result_.op(op).outputs[0];
  }

  const Graph& forward_;  // outlives the pass: both live in with_blocked_layout()
  std::vector<TensorType> types_;
  std::vector<bool> blocked_ops_;
  std::vector<Copies> copies_;  // by ValueId of the forward graph
  Graph result_;
};

}  // namespace

Graph with_blocked_layout(const Graph& forward, const std::set<std::string>& ops,
                          const std::set<ValueId>& received) {
  return Pass(forward, ops, received).run();
}

}  // namespace rookery
