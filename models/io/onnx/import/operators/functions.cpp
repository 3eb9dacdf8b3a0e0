// Functions of numbers that a graph makes of several ops, or takes with other types or axes than a file gives
// them.

#include <functional>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/onnx/import/operators/by_signature.hpp"
#include "models/io/onnx/import/operators/families.hpp"

namespace rookery {
namespace {

using Integers = std::vector<std::int64_t>;

Known scalar(float number) {
  Tensor tensor(DType::kF32, {});
  tensor.as<float>()[0] = number;
  return Known(std::move(tensor));
}

// Axes as an input (ReduceSum, from set 18 all) become the attribute.
Operands import_reduction(GraphImporter& graph, ImportedNode& node) {
  const bool nothing = integer(node, "noop_with_empty_axes", 0) != 0;
  node.attributes.erase("noop_with_empty_axes");
  if (node.type == "ReduceSum" && is_there(node, 1)) return import_by_signature(graph, node);
  if (is_there(node, 1)) {
    const AtProbes<Integers> axes = integers_at_probes(node, 1, "axes");
    if (!axes[0].empty()) node.attributes["axes"] = axes[0];
  }
  if (nothing && !node.attributes.contains("axes")) return {input(node, 0)};
  node.inputs.resize(1);
  return import_by_signature(graph, node);
}

// Its exponent may be of another type.
Operands import_pow(GraphImporter& graph, ImportedNode& node) {
  const auto* exponent = std::get_if<Known>(&input(node, 1));
  if (exponent != nullptr && exponent->at(0).type().dtype != DType::kF32 &&
      graph.type(input(node, 0), 0).dtype == DType::kF32) {
    node.inputs[1] = graph.emit(node.name, "Cast", {node.inputs[1]}, {{"to", std::string("f32")}});
  }
  return import_by_signature(graph, node);
}

Operands import_cast_like(GraphImporter& graph, ImportedNode& node) {
  const DType to = graph.type(input(node, 1), 0).dtype;
  if (to == graph.type(input(node, 0), 0).dtype) return {input(node, 0)};
  return {
      graph.emit(node.name, "Cast", {input(node, 0)}, {{"to", std::string(name_of(to))}}, node.outputs[0])};
}

// A function made of ops: body(op) gives back what op(suffix, type, inputs) made last.
using MakeOp = std::function<Operand(const char*, const char*, Operands)>;

Operands compose(GraphImporter& graph, ImportedNode& node, std::size_t inputs,
                 const std::function<Operand(const MakeOp&)>& body) {
  if (node.inputs.size() != inputs || !node.attributes.empty())
    throw DataError("has inputs or attributes that are not supported");
  return {body([&](const char* suffix, const char* type, const Operands& operands) {
    const bool is_last = *suffix == '\0';
    return graph.emit(is_last ? node.name : fmt::format("{}.{}", node.name, suffix), type, operands, {},
                      is_last ? node.outputs[0] : std::string());
  })};
}

Operands import_reciprocal(GraphImporter& graph, ImportedNode& node) {
  return compose(graph, node, 1, [&](const MakeOp& op) {
    return op("", "Div", {scalar(1), node.inputs[0]});
  });
}

Operands import_is_nan(GraphImporter& graph, ImportedNode& node) {
  return compose(graph, node, 1, [&](const MakeOp& op) {
    return op("", "Not", {op("is_number", "Equal", {node.inputs[0], node.inputs[0]})});
  });
}

Operands import_mish(GraphImporter& graph, ImportedNode& node) {
  return compose(graph, node, 1, [&](const MakeOp& op) {
    const Operand& x = node.inputs[0];
    return op("", "Mul", {x, op("tanh", "Tanh", {op("softplus", "Softplus", {x})})});
  });
}

Operands import_softsign(GraphImporter& graph, ImportedNode& node) {
  return compose(graph, node, 1, [&](const MakeOp& op) {
    const Operand& x = node.inputs[0];
    return op("", "Div", {x, op("sum", "Add", {op("abs", "Abs", {x}), scalar(1)})});
  });
}

Operands import_sum(GraphImporter& graph, ImportedNode& node) {
  return compose(graph, node, std::max<std::size_t>(1, node.inputs.size()), [&](const MakeOp& op) {
    Operand sum = node.inputs[0];
    if (node.inputs.size() == 1) return op("", "Identity", {sum});
    for (std::size_t i = 1; i < node.inputs.size(); ++i)
      sum = op(i + 1 == node.inputs.size() ? "" : "sum", "Add", {sum, node.inputs[i]});
    return sum;
  });
}

}  // namespace

ImportTable function_imports() {
  return {
      {"CastLike", import_cast_like},
      {"IsNaN", import_is_nan},
      {"Mish", import_mish},
      {"Pow", import_pow},
      {"Reciprocal", import_reciprocal},
      {"ReduceL1", import_reduction},
      {"ReduceL2", import_reduction},
      {"ReduceMax", import_reduction},
      {"ReduceMean", import_reduction},
      {"ReduceSum", import_reduction},
      {"Softsign", import_softsign},
      {"Sum", import_sum},
  };
}

}  // namespace rookery
