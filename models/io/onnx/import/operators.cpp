#include "models/io/onnx/import/operators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "models/base/error.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/ops/regions.hpp"
#include "models/io/onnx/exporters/names.hpp"
#include "models/io/onnx/format/constants.hpp"
#include "models/io/onnx/format/format.hpp"
#include "models/io/onnx/format/parse.hpp"
#include "models/io/onnx/functions/functions.hpp"
#include "models/io/onnx/import/einsum.hpp"
#include "models/io/onnx/import/recurrent.hpp"

namespace rookery {
namespace {

using Integers = std::vector<std::int64_t>;
using Operands = std::vector<Operand>;

const Operand& input(const ImportedNode& node, std::size_t position) {
  static const Operand absent;
  return position < node.inputs.size() ? node.inputs[position] : absent;
}

bool is_there(const ImportedNode& node, std::size_t position) {
  return !std::holds_alternative<std::monostate>(input(node, position));
}

const Known& known_input(const ImportedNode& node, std::size_t position, const std::string& what) {
  const auto* known = std::get_if<Known>(&input(node, position));
  if (known == nullptr) throw DataError(fmt::format("its {} is not known before training", what));
  return *known;
}

template <typename Number>
std::vector<Number> numbers_of(const Tensor& tensor, const std::string& what) {
  const auto all = [](auto elements) { return std::vector<Number>(elements.begin(), elements.end()); };
  const DType dtype = tensor.type().dtype;
  if (dtype == DType::kI64) return all(tensor.as<std::int64_t>());
  if (dtype == DType::kI32) return all(tensor.as<std::int32_t>());
  if constexpr (std::is_same_v<Number, float>) {
    if (dtype == DType::kF32) return all(tensor.as<float>());
    if (dtype == DType::kF64) return all(tensor.as<double>());
  }
  throw DataError(fmt::format("its {} is {}", what, tensor.type().to_string()));
}

Attribute attribute_from(AttributeKind kind, const Tensor& tensor, const std::string& what) {
  const bool is_list = kind == AttributeKind::kInts || kind == AttributeKind::kFloats;
  if (!is_list && tensor.shape().elements() != 1)
    throw DataError(fmt::format("its {} is {}, not one number", what, tensor.type().to_string()));
  switch (kind) {
    case AttributeKind::kInt:
      return numbers_of<std::int64_t>(tensor, what)[0];
    case AttributeKind::kInts:
      return numbers_of<std::int64_t>(tensor, what);
    case AttributeKind::kFloat:
      return numbers_of<float>(tensor, what)[0];
    default:
      return numbers_of<float>(tensor, what);
  }
}

AtProbes<Integers> integers_at_probes(const ImportedNode& node, std::size_t position,
                                      const std::string& what) {
  const Known& known = known_input(node, position, what);
  AtProbes<Integers> all;
  for (std::size_t probe = 0; probe < kProbes; ++probe)
    all[probe] = numbers_of<std::int64_t>(known.at(probe), what);
  return all;
}

std::int64_t integer(const ImportedNode& node, const std::string& key, std::int64_t otherwise) {
  const auto found = node.attributes.find(key);
  if (found == node.attributes.end()) return otherwise;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  if (value == nullptr) throw DataError(fmt::format("attribute \"{}\" has the wrong type", key));
  return *value;
}

Known scalar(float number) {
  Tensor tensor(DType::kF32, {});
  tensor.as<float>()[0] = number;
  return Known(std::move(tensor));
}

// Attributes that change nothing at this value: of newer sets, or what a runtime may do as it likes.
void drop_idle_attributes(ImportedNode& node) {
  static const std::map<std::string, std::map<std::string, Attribute>> idle{
      {"AveragePool", {{"dilations", {}}}},
      {"BatchNormalization", {{"training_mode", {}}}},
      {"Cast", {{"saturate", {}}}},
      {"Dropout", {{"seed", {}}}},
      {"LayerNormalization", {{"stash_type", std::int64_t{1}}}},
      {"GroupNormalization", {{"stash_type", std::int64_t{1}}}},
      {"MaxPool", {{"storage_order", std::int64_t{0}}}},
      {"Resize",
       {{"antialias", std::int64_t{0}},
        {"exclude_outside", std::int64_t{0}},
        {"extrapolation_value", 0.0F},
        {"keep_aspect_ratio_policy", std::string("stretch")},
        {"cubic_coeff_a", -0.75F}}},
  };
  const auto found = idle.find(node.type);
  if (found == idle.end()) return;
  for (const auto& [key, value] : found->second) {
    const auto given = node.attributes.find(key);
    if (given == node.attributes.end()) continue;
    const bool anything = value == Attribute();
    const auto* list = std::get_if<Integers>(&given->second);
    if (list != nullptr && std::ranges::any_of(*list, [](std::int64_t each) { return each != 1; })) continue;
    if (anything || given->second == value) node.attributes.erase(given);
  }
}

// The attributes of the op, at every probe, from the node's own and its constant inputs.
AtProbes<Attributes> attributes_of(const ImportedNode& node, const OpSignature& known) {
  AtProbes<Attributes> all;
  for (const auto& [key, value] : node.attributes) {
    const auto kind = known.attributes.find(key);
    if (kind == known.attributes.end())
      throw DataError(fmt::format("attribute \"{}\" is not supported", key));
    const bool is_type = kind->second == AttributeKind::kType;
    if (kind_of(value) != (is_type ? AttributeKind::kInt : kind->second))
      throw DataError(fmt::format("attribute \"{}\" has the wrong type", key));
    for (Attributes& at : all)
      at[key] =
          is_type ? Attribute(std::string(name_of(checked_dtype(std::get<std::int64_t>(value))))) : value;
  }
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ConstantInput* constant = known.constant_input(i);
    if (constant == nullptr || !is_there(node, i)) continue;
    const Known& value = known_input(node, i, constant->key);
    for (std::size_t probe = 0; probe < kProbes; ++probe)
      all[probe][constant->key] = attribute_from(constant->kind, value.at(probe), constant->key);
  }
  return all;
}

// An operator that is what its signature says, in a file as in a graph: what has no line in imports().
Operands import_op(GraphImporter& graph, ImportedNode& node) {
  const OpSignature* known = op_signature(node.type);
  if (known == nullptr) throw DataError("this operator is not supported");
  drop_idle_attributes(node);
  while (!node.inputs.empty() && !is_there(node, node.inputs.size() - 1)) node.inputs.pop_back();
  // Those that became attributes may be missing.
  std::size_t least = known->inputs.least;
  while (least > 1 && known->constant_input(least - 1) != nullptr) --least;
  if (node.inputs.size() < least || node.inputs.size() > known->inputs.most) {
    throw DataError(
        fmt::format("has {} inputs, not {} to {}", node.inputs.size(), least, known->inputs.most));
  }
  const AtProbes<Attributes> attributes = attributes_of(node, *known);
  Operands operands;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (known->constant_input(i) == nullptr) operands.push_back(node.inputs[i]);
  }
  if (node.outputs.size() > known->most_outputs) node.outputs.resize(known->most_outputs);
  return graph.emit(node.name, node.type, operands, attributes, node.outputs);
}

// ---- What differs from the op that a graph has -------------------------------------------------

// Axes as an input (ReduceSum, from set 18 all) become the attribute.
Operands import_reduction(GraphImporter& graph, ImportedNode& node) {
  const bool nothing = integer(node, "noop_with_empty_axes", 0) != 0;
  node.attributes.erase("noop_with_empty_axes");
  if (node.type == "ReduceSum" && is_there(node, 1)) return import_op(graph, node);
  if (is_there(node, 1)) {
    const AtProbes<Integers> axes = integers_at_probes(node, 1, "axes");
    if (!axes[0].empty()) node.attributes["axes"] = axes[0];
  }
  if (nothing && !node.attributes.contains("axes")) return {node.inputs[0]};
  node.inputs.resize(1);
  return import_op(graph, node);
}

Operands import_split(GraphImporter& graph, ImportedNode& node) {
  const std::int64_t parts = integer(node, "num_outputs", std::ssize(node.outputs));
  node.attributes.erase("num_outputs");
  if (is_there(node, 1)) return import_op(graph, node);
  if (parts != std::ssize(node.outputs)) throw DataError(fmt::format("has not {} outputs", parts));
  const Shape shape = graph.type(input(node, 0), 0).shape;
  const std::int64_t axis = integer(node, "axis", 0);
  if (axis < -shape.rank() || axis >= shape.rank())
    throw DataError(fmt::format("axis {} of {}", axis, shape.to_string()));
  const std::int64_t size = shape[static_cast<int>(axis)];
  const std::int64_t part = (size + parts - 1) / parts;
  Tensor sizes(DType::kI64, {parts});
  std::ranges::fill(sizes.as<std::int64_t>(), part);
  sizes.as<std::int64_t>().back() = size - part * (parts - 1);
  node.inputs = {node.inputs.at(0), Known(std::move(sizes))};
  return import_op(graph, node);
}

void check_parts(std::int64_t count) {
  const auto most = static_cast<std::int64_t>(op_signature("Split")->most_outputs);
  if (count > most) throw DataError(fmt::format("splits into {} parts, more than {}", count, most));
}

// Sizes of the parts along an axis of `size` elements: those given; of a single number n parts of n, the last
// perhaps smaller.
Integers sizes_of_sequence(const Tensor& split, std::int64_t size) {
  Integers sizes = numbers_of<std::int64_t>(split, "split");
  if (split.shape().rank() > 0) return sizes;
  const std::int64_t part = sizes[0];
  if (part < 1) throw DataError(fmt::format("splits into parts of {} elements", part));
  check_parts(size / part);
  sizes.assign(static_cast<std::size_t>(size / part), part);
  if (size % part != 0) sizes.push_back(size % part);
  return sizes;
}

// Without sizes every part is of 1 element, and its axis goes where keepdims is 0.
Operands import_split_to_sequence(GraphImporter& graph, ImportedNode& node) {
  const AtProbes<Shape> shapes = graph.shapes(input(node, 0));
  const int axis = axis_of(integer(node, "axis", 0), shapes[0].rank());
  if (shapes[0][axis] != shapes[1][axis]) throw DataError("splits the batch");
  const bool is_single = !is_there(node, 1);
  Integers sizes;
  if (is_single) {
    check_parts(shapes[0][axis]);
    sizes.assign(static_cast<std::size_t>(shapes[0][axis]), 1);
  } else {
    const Known& split = known_input(node, 1, "split");
    if (!split.is_constant()) throw DataError("its split depends on the batch size");
    sizes = sizes_of_sequence(split.at(0), shapes[0][axis]);
  }
  AtProbes<Attributes> attributes;
  attributes.fill({{"axis", std::int64_t{axis}}, {"split", sizes}});
  Operands parts =
      graph.emit(node.name, "Split", {node.inputs[0]}, attributes, std::vector<std::string>(sizes.size()));
  if (is_single && integer(node, "keepdims", 1) == 0) {
    for (Operand& part : parts)
      part = graph.emit(node.name + ".squeezed", "Squeeze", {part}, {{"axes", Integers{axis}}});
  }
  return {std::make_shared<const Sequence>(Sequence{std::move(parts)})};
}

Operands import_sequence_at(GraphImporter&, ImportedNode& node) {
  const auto* sequence = std::get_if<std::shared_ptr<const Sequence>>(&input(node, 0));
  if (sequence == nullptr) throw DataError("reads no sequence");
  const Operands& parts = (*sequence)->parts;
  const Known& position = known_input(node, 1, "position");
  if (!position.is_constant()) throw DataError("its position depends on the batch size");
  const auto place = std::get<std::int64_t>(attribute_from(AttributeKind::kInt, position.at(0), "position"));
  const std::int64_t count = std::ssize(parts);
  if (place < -count || place >= count)
    throw DataError(fmt::format("position {} of a sequence of {}", place, count));
  return {parts[static_cast<std::size_t>(place < 0 ? place + count : place)]};
}

Operands import_squeeze(GraphImporter& graph, ImportedNode& node) {
  if (!is_there(node, 1)) {
    const AtProbes<Shape> shapes = graph.shapes(input(node, 0));
    Integers axes;
    for (int axis = 0; axis < shapes[0].rank(); ++axis) {
      if (shapes[0][axis] == 1 && shapes[1][axis] == 1) axes.push_back(axis);
    }
    Tensor tensor(DType::kI64, {std::ssize(axes)});
    std::ranges::copy(axes, tensor.as<std::int64_t>().begin());
    node.inputs = {node.inputs.at(0), Known(std::move(tensor))};
  }
  return import_op(graph, node);
}

// What trains is told by the program, not by the file; the mask is the graph's own affair.
Operands import_dropout(GraphImporter& graph, ImportedNode& node) {
  node.inputs.resize(std::min<std::size_t>(node.inputs.size(), 2));
  return import_op(graph, node);
}

// In the form of inference, whatever the file's: it trains again, unless the module's is in evaluation.
Operands import_batch_norm(GraphImporter& graph, ImportedNode& node) {
  if (node.inputs.size() != 5) throw DataError(fmt::format("has {} inputs, not 5", node.inputs.size()));
  const bool fixed = graph.keeps_modes() && integer(node, "training_mode", 0) == 0;
  drop_idle_attributes(node);
  node.outputs.resize(1);
  node.inputs[kBatchNormMean] = graph.buffer(node.inputs[kBatchNormMean], fixed);
  node.inputs[kBatchNormVariance] = graph.buffer(node.inputs[kBatchNormVariance], fixed);
  const Operand counter = fixed ? Operand() : graph.counter_of(node.inputs[kBatchNormMean]);
  Attributes attributes{{"epsilon", 1e-5F}, {"momentum", 0.9F}};
  for (auto& [key, value] : node.attributes) attributes[key] = value;
  if (attributes.size() > 2) throw DataError("has attributes that are not supported");
  if (!std::holds_alternative<std::monostate>(counter)) node.inputs.push_back(counter);
  return {graph.emit(node.name, node.type, node.inputs, attributes, node.outputs[0])};
}

// Operators of ours: see rookery_export.py.
Operands import_detach(GraphImporter& graph, ImportedNode& node) {
  if (node.inputs.size() != 1) throw DataError("needs one input");
  return {graph.emit(node.name, "Detach", node.inputs, {}, node.outputs[0])};
}

Operands import_embedding(GraphImporter& graph, ImportedNode& node) {
  if (node.inputs.size() != 2) throw DataError("needs weights and indices");
  const Shape weight = graph.type(node.inputs[0], 0).shape;
  const std::int64_t padding = integer(node, "padding_idx", -1);
  if (weight.rank() != 2 || padding < 0 || padding >= weight[0])
    throw DataError(fmt::format("has the padding_idx {} for weights of {}", padding, weight.to_string()));
  return {graph.emit(node.name, "Gather", node.inputs, {{"axis", std::int64_t{0}}, {"padding_idx", padding}},
                     node.outputs[0])};
}

// From set 21 scale and bias are those of channels, as in PyTorch; before they are those of groups.
Operands import_group_norm(GraphImporter& graph, ImportedNode& node) {
  drop_idle_attributes(node);
  const std::int64_t groups = integer(node, "num_groups", 0);
  const Shape x = graph.type(input(node, 0), 0).shape;
  if (node.inputs.size() != 3 || x.rank() < 2 || groups != x[1])
    throw DataError("its scale and bias are those of groups, not of channels: export with opset_version=17");
  Attributes attributes{{"num_groups", groups}, {"epsilon", 1e-5F}};
  for (auto& [key, value] : node.attributes) attributes[key] = value;
  return {graph.emit(node.name, node.type, node.inputs, attributes, node.outputs[0])};
}

Operands import_reshape(GraphImporter& graph, ImportedNode& node) {
  return {graph.reshape(node.name, input(node, 0), integers_at_probes(node, 1, "shape"),
                        integer(node, "allowzero", 0) != 0, node.outputs[0])};
}

Operands import_expand(GraphImporter& graph, ImportedNode& node) {
  return {graph.expand(node.name, input(node, 0), integers_at_probes(node, 1, "shape"), node.outputs[0])};
}

// `sizes` become scales.
Operands import_resize(GraphImporter& graph, ImportedNode& node) {
  if (is_there(node, 3)) {
    const Shape from = graph.type(input(node, 0), 0).shape;
    const Integers sizes = integers_at_probes(node, 3, "sizes")[0];
    if (std::ssize(sizes) != from.rank())
      throw DataError(fmt::format("{} sizes for {}", sizes.size(), from.to_string()));
    Tensor scales(DType::kF32, {std::ssize(sizes)});
    for (std::size_t i = 0; i < sizes.size(); ++i)
      scales.as<float>()[i] = static_cast<float>(sizes[i]) / static_cast<float>(from[static_cast<int>(i)]);
    node.inputs = {node.inputs[0], Operand(), Known(std::move(scales))};
  }
  node.inputs.resize(std::max<std::size_t>(node.inputs.size(), 3));
  node.inputs[1] = Operand();
  return import_op(graph, node);
}

// Its exponent may be of another type.
Operands import_pow(GraphImporter& graph, ImportedNode& node) {
  const auto* exponent = std::get_if<Known>(&input(node, 1));
  if (exponent != nullptr && exponent->at(0).type().dtype != DType::kF32 &&
      graph.type(input(node, 0), 0).dtype == DType::kF32) {
    node.inputs[1] = graph.emit(node.name, "Cast", {node.inputs[1]}, {{"to", std::string("f32")}});
  }
  return import_op(graph, node);
}

Operands import_cast_like(GraphImporter& graph, ImportedNode& node) {
  const DType to = graph.type(input(node, 1), 0).dtype;
  if (to == graph.type(input(node, 0), 0).dtype) return {node.inputs[0]};
  return {graph.emit(node.name, "Cast", {node.inputs.at(0)}, {{"to", std::string(name_of(to))}},
                     node.outputs[0])};
}

Operands import_shape(GraphImporter& graph, ImportedNode& node) {
  return {graph.shape_of(input(node, 0), integer(node, "start", 0),
                         integer(node, "end", std::numeric_limits<std::int64_t>::max()))};
}

Operands import_size(GraphImporter& graph, ImportedNode& node) {
  ImportedNode product{.name = node.name, .type = "ReduceProd", .opset = node.opset};
  product.inputs = {graph.shape_of(input(node, 0), 0, std::numeric_limits<std::int64_t>::max())};
  product.outputs = node.outputs;
  return import_node(graph, std::move(product));
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
  return compose(graph, node, node.inputs.size(), [&](const MakeOp& op) {
    Operand sum = node.inputs.at(0);
    if (node.inputs.size() == 1) return op("", "Identity", {sum});
    for (std::size_t i = 1; i < node.inputs.size(); ++i)
      sum = op(i + 1 == node.inputs.size() ? "" : "sum", "Add", {sum, node.inputs[i]});
    return sum;
  });
}

Operands import_gelu(GraphImporter& graph, ImportedNode& node) {
  Attributes attributes{{"approximate", std::string("none")}};
  for (auto& [key, value] : node.attributes) attributes[key] = value;
  if (attributes.size() != 1 || node.inputs.size() != 1)
    throw DataError("has inputs or attributes that are not supported");
  return {graph.emit(node.name, "Gelu", node.inputs, attributes, node.outputs[0])};
}

// torch.export gives every convolution a bias, of zeros where the module has none.
Operands import_convolution(GraphImporter& graph, ImportedNode& node) {
  const auto* bias = std::get_if<Known>(&input(node, 2));
  const bool is_zero = bias != nullptr && bias->is_constant() && bias->at(0).type().dtype == DType::kF32 &&
                       std::ranges::all_of(bias->at(0).as<float>(), [](float each) { return each == 0; });
  if (is_zero) node.inputs.resize(2);
  return import_op(graph, node);
}

using Import = Operands (*)(GraphImporter&, ImportedNode&);

const std::map<std::string, Import>& imports() {
  static const std::map<std::string, Import> table{
      {"BatchNormalization", import_batch_norm},
      {"CastLike", import_cast_like},
      {"Conv", import_convolution},
      {"ConvTranspose", import_convolution},
      {"Dropout", import_dropout},
      {"Einsum", import_einsum},
      {"Expand", import_expand},
      {"Gelu", import_gelu},
      {"GRU", import_recurrent},
      {"GroupNormalization", import_group_norm},
      {"IsNaN", import_is_nan},
      {"LSTM", import_recurrent},
      {"Mish", import_mish},
      {"Pow", import_pow},
      {"RNN", import_recurrent},
      {"Reciprocal", import_reciprocal},
      {"ReduceL1", import_reduction},
      {"ReduceL2", import_reduction},
      {"ReduceMax", import_reduction},
      {"ReduceMean", import_reduction},
      {"ReduceSum", import_reduction},
      {"Reshape", import_reshape},
      {"Resize", import_resize},
      {"SequenceAt", import_sequence_at},
      {"Shape", import_shape},
      {"Size", import_size},
      {"Softsign", import_softsign},
      {"Split", import_split},
      {"SplitToSequence", import_split_to_sequence},
      {"Squeeze", import_squeeze},
      {"Sum", import_sum},
  };
  return table;
}

// What only constants go through: Floor, Mod, Range, …
std::optional<Operand> fold_own(GraphImporter& graph, const ImportedNode& node) {
  AtProbes<std::shared_ptr<const Tensor>> made;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    std::vector<const Tensor*> tensors;
    for (const Operand& operand : node.inputs) {
      const auto* known = std::get_if<Known>(&operand);
      if (known == nullptr && !std::holds_alternative<std::monostate>(operand)) return std::nullopt;
      tensors.push_back(known == nullptr ? nullptr : &known->at(probe));
    }
    std::optional<Tensor> tensor = graph.folder().run_own(node.type, tensors);
    if (!tensor) return std::nullopt;
    made[probe] = std::make_shared<const Tensor>(std::move(*tensor));
  }
  return Known(std::move(made));
}

}  // namespace

bool is_supported(const std::string& type) {
  return imports().contains(type) || op_signature(type) != nullptr || Folder::has_own(type) ||
         type == "Constant" || type == "ConstantOfShape";
}

Operand import_filled(GraphImporter&, const ImportedNode& node, const std::optional<Tensor>& element) {
  AtProbes<std::shared_ptr<const Tensor>> made;
  const AtProbes<Integers> dims = integers_at_probes(node, 0, "shape");
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    made[probe] = std::make_shared<const Tensor>(
        repeated_constant(dims[probe], element ? std::optional(element->clone()) : std::nullopt));
  }
  return Known(std::move(made));
}

std::vector<Operand> import_own(GraphImporter& graph, ImportedNode node) {
  if (node.outputs.size() != 1) throw DataError("has not one output");
  if (node.type == "Detach") return import_detach(graph, node);
  if (node.type == "Embedding") return import_embedding(graph, node);
  throw DataError(fmt::format("no such operator of the domain {} is known", quoted(kOnnxDomain)));
}

std::vector<Operand> import_node(GraphImporter& graph, ImportedNode node) {
  if (node.outputs.empty()) throw DataError("has no output");
  if (std::optional<Operand> folded = fold_own(graph, node)) return {*folded};
  const auto found = imports().find(node.type);
  return found == imports().end() ? import_op(graph, node) : found->second(graph, node);
}

}  // namespace rookery
