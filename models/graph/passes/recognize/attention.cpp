// Attention that is written out in single ops.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "models/graph/op_definition.hpp"
#include "models/graph/passes/recognize/chains.hpp"
#include "models/graph/passes/recognize/recognize.hpp"

namespace rookery {
namespace {

constexpr float kHidden = -1e4F;  // a score of this or less stands for one that is not seen

using Integers = std::vector<std::int64_t>;

// A chain that has been found.
struct FoundAttention {
  std::string name;                                  // of the last product
  ValueId result = kNoValue;                         // what the new op makes
  ValueId q = kNoValue, k = kNoValue, v = kNoValue;  // k and v absent: packed
  ValueId mask = kNoValue;
  std::map<std::string, Attribute> attributes;
  OpId last = kNoOp;      // in whose place the new op comes
  std::set<OpId> inside;  // that go
};

class AttentionFinder : ChainFinder {
 public:
  explicit AttentionFinder(const Graph& graph)
      : ChainFinder(graph), of_two_(graph.types(2)), of_three_(graph.types(3)) {
    trained_.insert(graph.parameters().begin(), graph.parameters().end());
    for (const Op& op : graph.ops()) {
      const bool depends = std::ranges::any_of(op.inputs, [&](ValueId id) { return trained_.contains(id); });
      if (depends) trained_.insert(op.outputs.begin(), op.outputs.end());
    }
  }

  // The attention whose product with V is this op.
  std::optional<FoundAttention> find(OpId id) const {
    const Op& product = graph().op(id);
    if (product.type != "MatMul" || rank(product.outputs[0]) != 4) return std::nullopt;
    FoundAttention found{
        .name = product.name, .result = product.outputs[0], .v = product.inputs[1], .last = id};
    found.inside.insert(id);
    ValueId at = product.inputs[0];
    if (const Op* dropout = step(at, "Dropout", found)) {
      found.attributes["ratio"] = dropout->number("ratio", 0.5F);
      at = dropout->inputs[0];
    }
    const int readers = skip_zeros_for_nan(at, found) ? 3 : 1;
    const Op* softmax = ChainFinder::step(at, "Softmax", found.inside, readers);
    if (softmax == nullptr || !is_last_axis(*softmax)) return std::nullopt;
    at = softmax->inputs[0];
    if (!take_mask(at, found)) return std::nullopt;
    float scale = take_scale(at, found);
    const Op* scores = step(at, "MatMul", found);
    if (scores == nullptr) return std::nullopt;
    found.q = scores->inputs[0];
    scale *= take_scale(found.q, found);
    ValueId key = scores->inputs[1];
    scale *= take_scale(key, found);
    if (!take_key(key, found)) return std::nullopt;
    scale *= take_scale(found.k, found);
    if (!fits(found, *scores, product)) return std::nullopt;
    if (!std::isfinite(scale) || scale == 0) return std::nullopt;
    found.attributes["scale"] = scale;
    take_heads(found, key);
    if (found.k == kNoValue && !found.attributes.contains("num_heads")) return std::nullopt;
    return found;
  }

 private:
  const Shape& shape(ValueId id) const { return of_two_[id].shape; }
  int rank(ValueId id) const { return shape(id).rank(); }

  // The op of this type that makes the value for one reader alone; it becomes part of what is found.
  const Op* step(ValueId value, const std::string& type, FoundAttention& found) const {
    return ChainFinder::step(value, type, found.inside);
  }

  // Goes behind Where(IsNaN(weights), 0, weights), if it is there: a row that sees nothing has NaN for
  // weights, and with Attention zeros anyway.
  bool skip_zeros_for_nan(ValueId& at, FoundAttention& found) const {
    const Op* where = producer(at, "Where");
    const Op* is_nan = where == nullptr ? nullptr : producer(where->inputs[0], "Not");
    const Op* is_number = is_nan == nullptr ? nullptr : producer(is_nan->inputs[0], "Equal");
    if (is_number == nullptr || number(where->inputs[1]) != 0.0F) return false;
    const ValueId weights = where->inputs[2];
    const std::array made{at, where->inputs[0], is_nan->inputs[0]};
    const bool are_read_once = std::ranges::all_of(made, [&](ValueId id) { return readers(id) == 1; });
    if (!are_read_once || is_number->inputs != std::vector{weights, weights} || readers(weights) != 3)
      return false;
    for (const ValueId id : made) found.inside.insert(graph().value(id).producer);
    at = weights;
    return true;
  }

  bool is_last_axis(const Op& softmax) const {
    const std::int64_t axis = softmax.integer("axis", -1);
    return axis == -1 || axis == rank(softmax.inputs[0]) - 1;
  }

  // Goes behind a product with a number or a division by one, and gives the factor; 1 where there is none.
  float take_scale(ValueId& at, FoundAttention& found) const {
    const Op* op = producer(at);
    if (op == nullptr || (op->type != "Mul" && op->type != "Div") || readers(at) != 1) return 1;
    const bool is_div = op->type == "Div";
    for (const std::size_t i : {1U, 0U}) {
      const std::optional<float> factor = number(op->inputs[i]);
      if (!factor || (is_div && i == 0) || rank(op->inputs[1 - i]) != rank(at)) continue;
      found.inside.insert(graph().value(at).producer);
      at = op->inputs[1 - i];
      return is_div ? 1 / *factor : *factor;
    }
    return 1;
  }

  // Goes behind the mask, if there is one; false where it is none that Attention has.
  bool take_mask(ValueId& at, FoundAttention& found) const {
    const Op* op = producer(at);
    if (op == nullptr || readers(at) != 1) return true;
    if (op->type == "Add") {
      const std::size_t scores = trained_.contains(op->inputs[0]) ? 0 : 1;
      return hide(at, op->inputs[scores], op->inputs[1 - scores], found);
    }
    if (op->type != "Where" || op->outputs.size() != 1) return true;
    // Behind a low number a row that sees nothing weighs all alike; Attention has no weights for it then.
    const std::optional<float> hidden = number(op->inputs[2]);
    const bool is_hidden = hidden && *hidden <= kHidden;
    if (!is_hidden || !(std::isinf(*hidden) || shows_some_of_every_row(op->inputs[0]))) return false;
    return hide(at, op->inputs[1], op->inputs[0], found);
  }

  bool hide(ValueId& at, ValueId scores, ValueId mask, FoundAttention& found) const {
    if (trained_.contains(mask) || shape(scores) != shape(at) || rank(mask) > 4) return false;
    found.inside.insert(graph().value(at).producer);
    at = scores;
    if (is_causal(mask, shape(scores))) {
      found.attributes["is_causal"] = std::int64_t{1};
    } else {
      found.mask = mask;
    }
    return true;
  }

  bool shows_some_of_every_row(ValueId mask) const {
    const Value& value = graph().value(mask);
    if (value.kind != ValueKind::kConstant || value.type.dtype != DType::kBool || rank(mask) == 0)
      return false;
    const std::span<const bool> seen = value.data->as<bool>();
    const auto columns = static_cast<std::size_t>(value.type.shape[-1]);
    for (std::size_t row = 0; row < seen.size(); row += columns) {
      if (std::ranges::none_of(seen.subspan(row, columns), std::identity())) return false;
    }
    return true;
  }

  // Does the constant hide just the columns behind the row's own?
  bool is_causal(ValueId mask, const Shape& scores) const {
    const Value& value = graph().value(mask);
    if (value.kind != ValueKind::kConstant) return false;
    const Shape& own = value.type.shape;
    const std::int64_t rows = scores[-2];
    const std::int64_t columns = scores[-1];
    if (own.rank() < 2 || own[-2] != rows || own[-1] != columns || own.elements() != rows * columns)
      return false;
    for (std::int64_t place = 0; place < rows * columns; ++place) {
      const auto i = static_cast<std::size_t>(place);
      const bool later = place % columns > place / columns;
      if (value.type.dtype == DType::kBool) {
        if (value.data->as<bool>()[i] == later) return false;
      } else {
        const float added = value.data->as<float>()[i];
        if (later ? !(added <= kHidden) : added != 0) return false;
      }
    }
    return true;
  }

  // K from K^T, whose producer turns its last two dimensions.
  bool take_key(ValueId transposed, FoundAttention& found) const {
    const Op* op = step(transposed, "Transpose", found);
    if (op == nullptr) return false;
    const Integers perm = op->integers("perm", {});
    if (perm != Integers{0, 1, 3, 2} && perm != Integers{0, 2, 3, 1}) return false;
    found.k = op->inputs[0];
    return true;
  }

  // [batch, heads, rows, depth] throughout, nothing of it repeated.
  bool fits(const FoundAttention& found, const Op& scores, const Op& product) const {
    const Shape& y = shape(product.outputs[0]);
    const Shape& s = shape(scores.outputs[0]);
    for (const ValueId id : {found.q, found.k, found.v}) {
      if (rank(id) != 4) return false;
    }
    const Shape& q = shape(found.q);
    const Shape& v = shape(found.v);
    const Shape& key = shape(scores.inputs[1]);
    const auto alike = [&](const Shape& other) { return other[0] == y[0] && other[1] == y[1]; };
    return alike(s) && alike(q) && alike(v) && alike(key);
  }

  // The value f32[batch, rows, heads * depth] that this one, [batch, rows, heads, depth], is a reshaping of.
  ValueId merged(ValueId parted, FoundAttention& found) const {
    const Op* op = step(parted, "Reshape", found);
    if (op == nullptr || rank(op->inputs[0]) != 3 || rank(parted) != 4) return kNoValue;
    for (const auto* types : {&of_two_, &of_three_}) {
      const Shape& from = (*types)[op->inputs[0]].shape;
      const Shape& to = (*types)[parted].shape;
      if (from[0] != to[0] || from[1] != to[1]) return kNoValue;
    }
    return op->inputs[0];
  }

  // The same of [batch, heads, rows, depth].
  ValueId merged_heads(ValueId heads, FoundAttention& found) const {
    const Op* op = step(heads, "Transpose", found);
    if (op == nullptr || op->integers("perm", {}) != Integers{0, 2, 1, 3}) return kNoValue;
    return merged(op->inputs[0], found);
  }

  // The op that alone reads the value.
  OpId reader(ValueId value) const {
    if (readers(value) != 1) return kNoOp;
    for (OpId id = 0; id < std::ssize(graph().ops()); ++id) {
      if (std::ranges::count(graph().op(id).inputs, value) > 0) return id;
    }
    return kNoOp;
  }

  // Takes the parting and joining of heads into the op, or leaves it all outside; then the key must be in
  // the order of the others.
  void take_heads(FoundAttention& found, ValueId key) const {
    FoundAttention merged_found = found;
    const bool turned = producer(key)->integers("perm", {}) == Integers{0, 2, 3, 1};
    const OpId turn = reader(found.result);
    const OpId join = turn == kNoOp ? kNoOp : reader(graph().op(turn).outputs[0]);
    const bool joins = join != kNoOp && graph().op(turn).type == "Transpose" &&
                       graph().op(turn).integers("perm", {}) == Integers{0, 2, 1, 3} &&
                       graph().op(join).type == "Reshape" && rank(graph().op(join).outputs[0]) == 3;
    const ValueId q = merged_heads(found.q, merged_found);
    const ValueId k = turned ? merged(found.k, merged_found) : merged_heads(found.k, merged_found);
    const ValueId v = merged_heads(found.v, merged_found);
    if (!joins || q == kNoValue || k == kNoValue || v == kNoValue || !is_joined(turn, join)) {
      if (turned) found.k = kNoValue;
      return;
    }
    merged_found.attributes["num_heads"] = shape(found.q)[1];
    merged_found.inside.insert(turn);
    merged_found.inside.insert(join);
    merged_found.last = join;
    merged_found.result = graph().op(join).outputs[0];
    merged_found.q = q;
    merged_found.k = k;
    merged_found.v = v;
    take_split(merged_found);
    found = std::move(merged_found);
  }

  // Does the Reshape join heads and depth, and leave the others?
  bool is_joined(OpId turn, OpId join) const {
    return std::ranges::all_of(std::vector{&of_two_, &of_three_}, [&](const auto* types) {
      const Shape& from = (*types)[graph().op(turn).outputs[0]].shape;
      const Shape& to = (*types)[graph().op(join).outputs[0]].shape;
      return from[0] == to[0] && from[1] == to[1];
    });
  }

  void take_split(FoundAttention& found) const {
    const OpId split = graph().value(found.q).producer;
    if (split == kNoOp) return;
    const Op& op = graph().op(split);
    if (op.type != "Split" || op.outputs != std::vector<ValueId>{found.q, found.k, found.v}) return;
    const std::int64_t axis = op.integer("axis", 0);
    const bool is_last = rank(op.inputs[0]) == 3 && (axis == 2 || axis == -1);
    const bool shared = std::ranges::any_of(op.outputs, [&](ValueId id) { return readers(id) != 1; });
    if (!is_last || shared || shape(found.q) != shape(found.k) || shape(found.q) != shape(found.v)) return;
    found.inside.insert(split);
    found.q = op.inputs[0];
    found.k = found.v = kNoValue;
  }

  std::vector<TensorType> of_two_, of_three_;
  std::set<ValueId> trained_;
};

FoundChain as_chain(FoundAttention found) {
  FoundChain chain{.op = {.name = std::move(found.name),
                          .type = "Attention",
                          .inputs = {found.q, found.k, found.v},
                          .outputs = {found.result},
                          .attributes = std::move(found.attributes)},
                   .inside = std::move(found.inside)};
  if (found.mask != kNoValue) chain.op.inputs.push_back(found.mask);
  return chain;
}

}  // namespace

Graph recognize_attention(const Graph& forward) {
  const AttentionFinder finder(forward);
  std::map<OpId, FoundChain> by_last;
  for (OpId id = 0; id < std::ssize(forward.ops()); ++id) {
    std::optional<FoundAttention> found = finder.find(id);
    if (!found) continue;
    const OpId last = found->last;
    by_last.emplace(last, as_chain(std::move(*found)));
  }
  return by_last.empty() ? forward : with_chains(forward, by_last);
}

}  // namespace rookery
