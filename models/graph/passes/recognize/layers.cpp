// Gelu and normalizations that are written out in single ops.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <set>
#include <utility>

#include "models/graph/op_definition.hpp"
#include "models/graph/passes/recognize/chains.hpp"
#include "models/graph/passes/recognize/recognize.hpp"

namespace rookery {
namespace {

using Integers = std::vector<std::int64_t>;

class LayerFinder : ChainFinder {
 public:
  explicit LayerFinder(const Graph& graph) : ChainFinder(graph), types_(batch_types(graph)) {}

  // The layer that ends with this op.
  std::optional<FoundChain> find(OpId id) const {
    const Op& last = graph().op(id);
    std::optional<FoundChain> found;
    if (last.type == "Mul") found = gelu(id);
    if (last.type == "Add") {
      found = layer_norm(id);
      if (!found) found = group_norm(id);
    }
    if (found) {
      found->op.name = last.name;
      found->op.outputs = last.outputs;
      found->inside.insert(id);
    }
    return found;
  }

 private:
  const Shape& shape(ValueId id) const { return types_[id].shape; }

  // The op of this type that makes the value for `readers` readers alone; it becomes part of the layer.
  const Op* step(ValueId value, const std::string& type, FoundChain& found, int readers = 1) const {
    return ChainFinder::step(value, type, found.inside, readers);
  }

  // A product: its factors that are numbers, multiplied, and the others.
  struct Product {
    double factor = 1;
    std::vector<ValueId> others;
  };

  // Takes in products of products that nobody else reads, and divisions by a number.
  void add_factors(ValueId value, Product& product, FoundChain& found) const {
    if (const std::optional<float> factor = number(value)) {
      product.factor *= *factor;
      return;
    }
    if (const Op* mul = step(value, "Mul", found)) {
      for (const ValueId input : mul->inputs) add_factors(input, product, found);
      return;
    }
    const Op* power = producer(value, "Pow");
    const Op* div = producer(value, "Div");
    if (power != nullptr && number(power->inputs[1]) == 3.0F && step(value, "Pow", found) != nullptr) {
      product.others.insert(product.others.end(), 3, power->inputs[0]);
    } else if (div != nullptr && number(div->inputs[1]) && step(value, "Div", found) != nullptr) {
      product.factor /= static_cast<double>(*number(div->inputs[1]));
      add_factors(div->inputs[0], product, found);
    } else {
      product.others.push_back(value);
    }
  }

  static bool is_near(double value, double expected) { return std::abs(value - expected) < 1e-4 * expected; }

  // Of an Add of a number: the other operand.
  ValueId more_than(ValueId sum, float added, FoundChain& found) const {
    const Op* add = step(sum, "Add", found);
    if (add == nullptr) return kNoValue;
    for (const std::size_t i : {0U, 1U}) {
      if (number(add->inputs[i]) == added) return add->inputs[1 - i];
    }
    return kNoValue;
  }

  // x / 2 (1 + f), where f is erf(x / sqrt 2) or tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
  std::optional<FoundChain> gelu(OpId id) const {
    for (const std::size_t of_sum : {0U, 1U}) {
      FoundChain found;
      Product product;
      for (const ValueId input : graph().op(id).inputs) add_factors(input, product, found);
      if (product.others.size() != 2 || !is_near(product.factor, 0.5)) return std::nullopt;
      const ValueId x = product.others[1 - of_sum];
      const ValueId bent = more_than(product.others[of_sum], 1, found);
      if (bent == kNoValue) continue;
      const bool by_erf = is_gelu_erf(bent, x, found);
      if (!by_erf && !is_gelu_tanh(bent, x, found)) continue;
      found.op = {.name = {}, .type = "Gelu", .inputs = {x}, .outputs = {}, .attributes = {}};
      found.op.attributes["approximate"] = std::string(by_erf ? "none" : "tanh");
      return found;
    }
    return std::nullopt;
  }

  bool is_gelu_erf(ValueId bent, ValueId x, FoundChain& found) const {
    const Op* erf = step(bent, "Erf", found);
    if (erf == nullptr) return false;
    Product inner;
    add_factors(erf->inputs[0], inner, found);
    return inner.others == std::vector{x} && is_near(inner.factor, 1 / std::numbers::sqrt2);
  }

  bool is_gelu_tanh(ValueId bent, ValueId x, FoundChain& found) const {
    const Op* tanh = step(bent, "Tanh", found);
    if (tanh == nullptr) return false;
    Product inner;
    add_factors(tanh->inputs[0], inner, found);
    if (inner.others.size() != 1 || !is_near(inner.factor, std::sqrt(2 / std::numbers::pi))) return false;
    const Op* sum = step(inner.others[0], "Add", found);
    if (sum == nullptr) return false;
    const ValueId cubed = sum->inputs[sum->inputs[0] == x ? 1 : 0];
    Product cube;
    add_factors(cubed, cube, found);
    return std::ranges::count(sum->inputs, x) == 1 && cube.others == std::vector<ValueId>(3, x) &&
           is_near(cube.factor, 0.044715);
  }

  // What is scaled and moved: the value, scale and bias.
  struct Affine {
    ValueId value, scale, bias;
    FoundChain found;
  };

  // The ways to read a sum as that.
  std::vector<Affine> affine(OpId id) const {
    std::vector<Affine> all;
    const Op& sum = graph().op(id);
    for (const std::size_t i : {0U, 1U}) {
      FoundChain found;
      const Op* product = step(sum.inputs[i], "Mul", found);
      if (product == nullptr) continue;
      for (const std::size_t j : {0U, 1U})
        all.push_back({product->inputs[j], product->inputs[1 - j], sum.inputs[1 - i], found});
    }
    return all;
  }

  // (x - mean) / sqrt(mean((x - mean)^2) + epsilon) scale + bias, over the last dimensions.
  std::optional<FoundChain> layer_norm(OpId id) const {
    for (const Affine& part : affine(id)) {
      FoundChain found = part.found;
      const Op* div = step(part.value, "Div", found);
      const Op* root = div == nullptr ? nullptr : step(div->inputs[1], "Sqrt", found);
      const Op* sum = root == nullptr ? nullptr : step(root->inputs[0], "Add", found);
      if (sum == nullptr || !number(sum->inputs[1])) continue;
      const Op* variance = step(sum->inputs[0], "ReduceMean", found);
      const Op* centred = step(div->inputs[0], "Sub", found, 2);
      if (variance == nullptr || centred == nullptr || !is_square(variance->inputs[0], div->inputs[0], found))
        continue;
      const ValueId x = centred->inputs[0];
      const Op* mean = step(centred->inputs[1], "ReduceMean", found);
      const int rank = shape(x).rank();
      const int kept = rank - shape(part.scale).rank();
      if (mean == nullptr || mean->inputs[0] != x || !is_over_last(*mean, kept, rank) ||
          !is_over_last(*variance, kept, rank) || shape(part.bias) != shape(part.scale) ||
          !std::ranges::equal(shape(part.scale).dims(), shape(x).dims().subspan(kept)))
        continue;
      found.op = {.name = {},
                  .type = "LayerNormalization",
                  .inputs = {x, part.scale, part.bias},
                  .outputs = {},
                  .attributes = {{"axis", std::int64_t{kept}}, {"epsilon", *number(sum->inputs[1])}}};
      return found;
    }
    return std::nullopt;
  }

  bool is_square(ValueId square, ValueId of, FoundChain& found) const {
    const Op* power = step(square, "Pow", found);
    return power != nullptr && power->inputs[0] == of && number(power->inputs[1]) == 2.0F;
  }

  static bool is_over_last(const Op& mean, int kept, int rank) {
    if (kept < 0 || kept >= rank || mean.integer("keepdims", 1) != 1) return false;
    std::set<std::int64_t> expected, axes;
    for (int axis = kept; axis < rank; ++axis) expected.insert(axis);
    for (const std::int64_t axis : mean.integers("axes", {})) axes.insert(axis < 0 ? axis + rank : axis);
    return axes == expected;
  }

  // An InstanceNormalization of groups of channels as if they were one, between Reshapes.
  std::optional<FoundChain> group_norm(OpId id) const {
    for (const Affine& part : affine(id)) {
      FoundChain found = part.found;
      const Op* back = step(part.value, "Reshape", found);
      const Op* norm = back == nullptr ? nullptr : step(back->inputs[0], "InstanceNormalization", found);
      const Op* apart = norm == nullptr ? nullptr : step(norm->inputs[0], "Reshape", found);
      if (apart == nullptr || !is_full_of(norm->inputs[1], 1) || !is_full_of(norm->inputs[2], 0)) continue;
      const ValueId x = apart->inputs[0];
      const Shape& groups = shape(apart->outputs[0]);
      const bool keeps_samples = groups.rank() == 3 && groups[0] == kBatch && shape(x)[0] == kBatch &&
                                 std::ranges::count(groups.dims(), kBatch) == 1;
      const ValueId scale = of_channels(part.scale, x, found);
      const ValueId bias = of_channels(part.bias, x, found);
      if (!keeps_samples || shape(back->outputs[0]) != shape(x) || scale == kNoValue || bias == kNoValue)
        continue;
      found.op = {.name = {},
                  .type = "GroupNormalization",
                  .inputs = {x, scale, bias},
                  .outputs = {},
                  .attributes = {{"num_groups", groups[1]}, {"epsilon", norm->number("epsilon", 1e-5F)}}};
      return found;
    }
    return std::nullopt;
  }

  bool is_full_of(ValueId id, float number) const {
    const Value& value = graph().value(id);
    return value.kind == ValueKind::kConstant && value.type.dtype == DType::kF32 &&
           std::ranges::all_of(value.data->as<float>(), [&](float each) { return each == number; });
  }

  // The vector of channels that is unsqueezed to [channels, 1, …].
  ValueId of_channels(ValueId spread, ValueId x, FoundChain& found) const {
    const Op* unsqueeze = step(spread, "Unsqueeze", found);
    if (unsqueeze == nullptr || shape(x).rank() < 2) return kNoValue;
    const Shape& wide = shape(spread);
    const ValueId vector = unsqueeze->inputs[0];
    const bool fits =
        wide.rank() == shape(x).rank() - 1 && wide[0] == shape(x)[1] && shape(vector) == Shape{shape(x)[1]};
    return fits ? vector : kNoValue;
  }

  std::vector<TensorType> types_;
};

}  // namespace

Graph recognize_layers(const Graph& forward) {
  const LayerFinder finder(forward);
  std::map<OpId, FoundChain> by_last;
  for (OpId id = 0; id < std::ssize(forward.ops()); ++id) {
    if (std::optional<FoundChain> found = finder.find(id)) by_last.emplace(id, std::move(*found));
  }
  return with_chains(forward, by_last);
}

}  // namespace rookery
