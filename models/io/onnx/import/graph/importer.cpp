#include "models/io/onnx/import/graph/importer.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/ops/broadcast.hpp"
#include "models/io/onnx/format/constants.hpp"
#include "models/io/onnx/format/format.hpp"
#include "models/io/onnx/import/graph/batch.hpp"

namespace rookery {
namespace {

using Integers = std::vector<std::int64_t>;

bool is_known(const Operand& operand) {
  return std::holds_alternative<Known>(operand) || std::holds_alternative<std::monostate>(operand);
}

bool is_sequence(const Operand& operand) {
  return std::holds_alternative<std::shared_ptr<const Sequence>>(operand);
}

// DataError where one is absent that may not be.
void check_inputs_are_there(const std::string& type, const std::vector<Operand>& inputs) {
  const OpSignature* known = op_signature(type);
  if (known == nullptr) return;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_needed = i < known->inputs.least || known->inputs.most == kManyTensors;
    if (is_needed && std::holds_alternative<std::monostate>(inputs[i]))
      throw DataError(fmt::format("lacks its input {}", i));
  }
}

AtProbes<Attributes> everywhere(const Attributes& attributes) {
  AtProbes<Attributes> all;
  all.fill(attributes);
  return all;
}

// ONNX's operators that take no other numbers than f32.
void check_floats(const Op& op, const std::vector<TensorType>& inputs) {
  const OpSignature* known = op_signature(op.type);
  if (known == nullptr || known->any_type) return;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool counts = op.type == "BatchNormalization" && i == kBatchNormTracked;
    if (!counts && op.inputs[i] != kNoValue && inputs[i].dtype != DType::kF32)
      throw DataError(fmt::format("its input {} is {}, not f32", i, inputs[i].to_string()));
  }
}

}  // namespace

GraphImporter::GraphImporter(std::optional<std::int64_t> fixed) : fixed_(fixed) {
  const std::int64_t first = fixed.value_or(2);
  sizes_ = {first, first + 1, first + 3};
}

Operand GraphImporter::add_input(const std::string& name, const TensorType& type) {
  AtProbes<TensorType> types;
  for (std::size_t probe = 0; probe < kProbes; ++probe)
    types[probe] = {type.dtype, type.shape.with_batch(sizes_[probe])};
  types_.push_back(types);
  return model_.graph.add_input(name, type);
}

void GraphImporter::mark_output(const Operand& operand, const std::string& name) {
  const auto* value = std::get_if<ValueId>(&operand);
  if (value == nullptr) throw DataError("does not depend on the inputs");
  ValueId id = *value;
  const std::vector<ValueId>& marked = model_.graph.outputs();
  const bool is_copy = model_.graph.value(id).producer == kNoOp || std::ranges::count(marked, id) > 0;
  if (is_copy) id = std::get<ValueId>(emit(name + ".copy", "Identity", {operand}, {}, name));
  const AtProbes<Shape> at = shapes(id);
  bool is_batch = at[0].rank() > 0 && at[0][0] == sizes_[0] && batch_axis(at) == 0;
  for (std::size_t probe = 1; is_batch && probe < kProbes; ++probe) is_batch = at[probe][0] == sizes_[probe];
  if (!is_batch) {
    throw DataError(fmt::format(
        "has the shape {} for {} samples: its first dimension must be the batch, and no other{}",
        at[0].to_string(), sizes_[0], fixed_ ? "; export with dynamic_axes={'INPUT': {0: 'batch'}}" : ""));
  }
  model_.graph.mark_output(id);
}

TensorType GraphImporter::type(const Operand& operand, std::size_t probe) const {
  if (const auto* value = std::get_if<ValueId>(&operand)) return types_.at(*value).at(probe);
  if (const auto* known = std::get_if<Known>(&operand)) return known->at(probe).type();
  if (const auto* weight = std::get_if<std::shared_ptr<const Weight>>(&operand)) return (*weight)->type;
  return {};
}

AtProbes<Shape> GraphImporter::shapes(const Operand& operand) const {
  AtProbes<Shape> all;
  for (std::size_t probe = 0; probe < kProbes; ++probe) all[probe] = type(operand, probe).shape;
  return all;
}

Known GraphImporter::shape_of(const Operand& operand, std::int64_t start, std::int64_t end) const {
  AtProbes<std::shared_ptr<const Tensor>> made;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    const Shape shape = type(operand, probe).shape;
    const std::int64_t rank = shape.rank();
    const auto place = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    const std::int64_t first = place(start);
    const auto dims =
        shape.dims().subspan(first, static_cast<std::size_t>(std::max(place(end) - first, std::int64_t{0})));
    Tensor tensor(DType::kI64, {std::ssize(dims)});
    std::ranges::copy(dims, tensor.as<std::int64_t>().begin());
    made[probe] = std::make_shared<const Tensor>(std::move(tensor));
  }
  return Known(std::move(made));
}

ValueId GraphImporter::parameter(const Weight& weight) {
  if (const auto found = model_.graph.find(weight.name)) return *found;
  const ValueId id = weight.trained ? model_.graph.add_parameter(weight.name, weight.type, weight.initializer)
                                    : model_.graph.add_fixed(weight.name, weight.type, weight.initializer);
  types_.emplace_back().fill(weight.type);
  if (weight.data) model_.state.emplace(weight.name, weight.data->clone());
  return id;
}

Operand GraphImporter::buffer(const Operand& operand, bool fixed) {
  const auto* weight = std::get_if<std::shared_ptr<const Weight>>(&operand);
  if (weight == nullptr) throw DataError("its running statistics are no initializers");
  const Weight& of = **weight;
  if (fixed) return parameter({of.name, of.type, of.data, of.initializer, false});
  if (model_.graph.find(of.name))
    throw DataError(fmt::format(
        "shares {} with another node: give each use of the layer in forward a BatchNorm of its own",
        in_quotes(of.name)));
  const ValueId id = model_.graph.add_buffer(of.name, of.type, of.initializer);
  types_.emplace_back().fill(of.type);
  if (of.data) model_.state.emplace(of.name, of.data->clone());
  return id;
}

Operand GraphImporter::counter_of(const Operand& running_mean) {
  const std::string name = tracked_name(model_.graph.value(std::get<ValueId>(running_mean)).name);
  if (name.empty()) return {};
  const TensorType type{DType::kI64, {}};
  const ValueId id = model_.graph.add_buffer(name, type);
  types_.emplace_back().fill(type);
  if (const auto found = counters_.find(name); found != counters_.end() && found->second.type() == type)
    model_.state.emplace(name, found->second.clone());
  return id;
}

ValueId GraphImporter::constant(const Known& known, const std::string& hint) {
  const auto [at, is_new] = constants_.emplace(known.constant().get(), kNoValue);
  if (is_new) {
    at->second = model_.graph.add_constant(model_.graph.unused_value_name(hint), known.constant());
    types_.emplace_back().fill(known.constant()->type());
  }
  return at->second;
}

ValueId GraphImporter::value_of(const Operand& operand, const std::string& hint) {
  if (std::holds_alternative<std::monostate>(operand)) return kNoValue;
  if (const auto* value = std::get_if<ValueId>(&operand)) return *value;
  if (const auto* weight = std::get_if<std::shared_ptr<const Weight>>(&operand)) return parameter(**weight);
  const Known& known = std::get<Known>(operand);
  if (known.is_constant()) return constant(known, hint);
  // The same for every sample, and for any number of them?
  const std::optional<int> axis = batch_axis(shapes(operand));
  std::optional<Tensor> of_all;
  for (std::size_t probe = 0; axis && probe < kProbes; ++probe) {
    const Tensor& all = known.at(probe);
    if (all.shape()[*axis] != sizes_[probe]) break;
    Op first{.name = hint, .type = "Slice", .inputs = {}, .outputs = {}, .attributes = {}};
    first.attributes = {
        {"starts", Integers{0}}, {"ends", Integers{1}}, {"axes", Integers{*axis}}, {"steps", Integers{1}}};
    const Tensor* const input = &all;
    Tensor one = std::move(folder_.run(first, {&input, 1}, 1)[0]);
    Integers dims(all.shape().dims().begin(), all.shape().dims().end());
    Op again{.name = hint, .type = "Expand", .inputs = {}, .outputs = {}, .attributes = {{"shape", dims}}};
    const Tensor* const single = &one;
    if (!std::ranges::equal(folder_.run(again, {&single, 1}, 1)[0].view().bytes(), all.view().bytes())) break;
    if (of_all && !std::ranges::equal(one.view().bytes(), of_all->view().bytes())) break;
    if (!of_all) of_all = std::move(one);
    if (probe + 1 == kProbes)
      return std::get<ValueId>(repeat_samples(hint, Known(std::move(*of_all)), *axis, {}));
  }
  throw DataError("a tensor that it reads depends on the batch size");
}

// Bool, `rank` dimensions of 1 but for the batch at `axis`.
Operand GraphImporter::batch_of_true(const std::string& name, int axis, int rank) {
  for (const ValueId id : model_.graph.inputs()) {
    const TensorType& type = model_.graph.value(id).type;
    if (type.shape.rank() == 0 || type.shape[0] != kBatch || type.dtype == DType::kBool ||
        type.dtype == DType::kU8)
      continue;
    Operand first = id;
    if (const auto others = static_cast<std::size_t>(type.shape.rank() - 1); others > 0) {
      Integers axes;
      for (int i = 1; i < type.shape.rank(); ++i) axes.push_back(i);
      first = emit(name + ".first", "Slice", {first},
                   {{"starts", Integers(others, 0)},
                    {"ends", Integers(others, 1)},
                    {"axes", axes},
                    {"steps", Integers(others, 1)}});
    }
    Integers shape(static_cast<std::size_t>(rank), 1);
    shape[axis] = -1;
    first = emit(name + ".column", "Reshape", {first}, {{"shape", shape}});
    return emit(name + ".always", "Equal", {first, first});
  }
  throw DataError("no input of the model says how many samples there are");
}

// `one`, with a dimension of 1 at `axis`, for every sample. Expand knows no batch; Where does.
Operand GraphImporter::repeat_samples(const std::string& name, const Operand& one, int axis,
                                      const std::string& output) {
  const Operand samples = batch_of_true(name, axis, type(one, 0).shape.rank());
  return emit(name, "Where", {samples, one, one}, {}, output);
}

// A batch that lies behind other elements must not become part of their dimension (shape_for_any_batch).
void GraphImporter::check_flatten(const Operand& x, const Attributes& attributes) const {
  const AtProbes<Shape> at = shapes(x);
  const std::optional<int> batch = batch_axis(at);
  if (!batch) return;
  const auto found = attributes.find("axis");
  const auto* given = found == attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  std::int64_t axis = given == nullptr ? 1 : *given;
  if (axis < 0) axis += at[0].rank();
  for (int i = *batch < axis ? 0 : static_cast<int>(std::max<std::int64_t>(axis, 0)); i < *batch; ++i) {
    if (at[0][i] != 1)
      throw DataError(
          "joins the batch with what lies before it: export with dynamic_axes={'INPUT': {0: 'batch'}}");
  }
}

AtProbes<std::vector<TensorType>> GraphImporter::infer(const Op& op, const std::vector<Operand>& inputs,
                                                       const AtProbes<Attributes>& attributes) const {
  AtProbes<std::vector<TensorType>> made;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    std::vector<TensorType> types;
    std::string of;
    for (const Operand& input : inputs) {
      types.push_back(type(input, probe));
      of += (of.empty() ? "" : ", ") + types.back().to_string();
    }
    Op at = op;
    at.attributes = attributes[probe];
    try {
      check_floats(at, types);
      made[probe] = with_context(fmt::format("of {}", of), [&] { return infer_types(at, types); });
      for (const TensorType& type : made[probe]) {
        if (type.shape.elements() / sizes_[probe] > kMaxOnnxElements)
          throw DataError(fmt::format("would make {}", type.to_string()));
      }
    } catch (Error& error) {
      if (!fixed_ || probe == 0) throw;
      throw DataError(
          fmt::format("fits a batch of {}, for which the file was exported, and no other ({}): export with "
                      "dynamic_axes={{'INPUT': {{0: 'batch'}}}}",
                      *fixed_, error.what()));
    }
  }
  return made;
}

std::vector<Operand> GraphImporter::fold(const Op& op, const std::vector<Operand>& inputs,
                                         const AtProbes<Attributes>& attributes, std::size_t outputs) {
  const bool is_constant = attributes[1] == attributes[0] && attributes[2] == attributes[0] &&
                           std::ranges::all_of(inputs, [](const Operand& input) {
                             const auto* known = std::get_if<Known>(&input);
                             return known == nullptr || known->is_constant();
                           });
  std::vector<AtProbes<std::shared_ptr<const Tensor>>> made(outputs);
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    if (probe > 0 && is_constant) {
      for (auto& output : made) output[probe] = output[0];
      continue;
    }
    std::vector<const Tensor*> tensors;
    for (const Operand& input : inputs) {
      const auto* known = std::get_if<Known>(&input);
      tensors.push_back(known == nullptr ? nullptr : &known->at(probe));
    }
    Op at = op;
    at.attributes = attributes[probe];
    std::vector<Tensor> tensors_made = folder_.run(at, tensors, outputs);
    for (std::size_t i = 0; i < outputs; ++i)
      made[i][probe] = std::make_shared<const Tensor>(std::move(tensors_made[i]));
  }
  std::vector<Operand> known;
  for (auto& output : made) known.emplace_back(Known(std::move(output)));
  return known;
}

std::vector<Operand> GraphImporter::emit(const std::string& name, const std::string& type,
                                         const std::vector<Operand>& inputs,
                                         const AtProbes<Attributes>& attributes,
                                         const std::vector<std::string>& outputs) {
  Graph& graph = model_.graph;
  Op op{.name = graph.unused_op_name(name), .type = type, .inputs = {}, .outputs = {}, .attributes = {}};
  op.inputs.resize(inputs.size(), 0);
  op.outputs.resize(outputs.size(), 0);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (std::holds_alternative<std::monostate>(inputs[i])) op.inputs[i] = kNoValue;
  }
  if (std::ranges::any_of(inputs, is_sequence)) throw DataError("reads a sequence of tensors");
  check_inputs_are_there(type, inputs);
  // Dropout of what is known draws all the same, once the model trains.
  if (type != "Dropout" && std::ranges::all_of(inputs, is_known))
    return fold(op, inputs, attributes, outputs.size());
  for (const auto& [key, value] : attributes[0]) {
    for (const Attributes& other : attributes) {
      if (!other.contains(key) || other.at(key) != value)
        throw DataError(fmt::format("its {} depends on the batch size", key));
    }
  }
  if (type == "Flatten" && fixed_) check_flatten(inputs.at(0), attributes[0]);
  const AtProbes<std::vector<TensorType>> types = infer(op, inputs, attributes);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    op.inputs[i] = value_of(inputs[i], fmt::format("{}.{}", op.name, i));
  op.outputs.clear();
  op.attributes = attributes[0];
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    names.push_back(outputs[i].empty() ? graph.unused_value_name(fmt::format("{}_out_{}", op.name, i))
                                       : outputs[i]);
  const OpId id = graph.add_op(std::move(op), names);
  std::vector<Operand> made;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    AtProbes<TensorType>& of = types_.emplace_back();
    for (std::size_t probe = 0; probe < kProbes; ++probe) of[probe] = types[probe].at(i);
    made.emplace_back(graph.op(id).outputs[i]);
  }
  return made;
}

Operand GraphImporter::emit(const std::string& name, const std::string& type,
                            const std::vector<Operand>& inputs, const Attributes& attributes,
                            const std::string& output) {
  return emit(name, type, inputs, everywhere(attributes), std::vector<std::string>{output})[0];
}

Operand GraphImporter::reshape(const std::string& name, const Operand& x, const AtProbes<Integers>& to,
                               bool allow_zero, const std::string& output) {
  AtProbes<Attributes> attributes;
  for (std::size_t probe = 0; probe < kProbes; ++probe) attributes[probe]["shape"] = to[probe];
  if (!is_known(x)) {
    attributes = everywhere({{"shape", shape_for_any_batch(shapes(x), to, allow_zero, fixed_)}});
  }
  return emit(name, "Reshape", {x}, attributes, {output})[0];
}

Operand GraphImporter::expand(const std::string& name, const Operand& x, const AtProbes<Integers>& to,
                              const std::string& output) {
  AtProbes<Attributes> attributes;
  for (std::size_t probe = 0; probe < kProbes; ++probe) attributes[probe]["shape"] = to[probe];
  if (is_known(x)) return emit(name, "Expand", {x}, attributes, {output})[0];
  const AtProbes<Shape> from = shapes(x);
  AtProbes<Shape> wanted;
  for (std::size_t probe = 0; probe < kProbes; ++probe)
    wanted[probe] = broadcast(from[probe], Shape(to[probe]));
  Integers shape(wanted[0].dims().begin(), wanted[0].dims().end());
  std::optional<int> repeated;
  const int added = wanted[0].rank() - from[0].rank();
  for (int axis = 0; axis < wanted[0].rank(); ++axis) {
    if (wanted[1][axis] == wanted[0][axis]) continue;
    shape[axis] = 1;
    if (axis < added || from[0][axis - added] == 1) {
      if (repeated) throw DataError("its shape depends on the batch size in several dimensions");
      repeated = axis;
    }
  }
  if (!repeated) return emit(name, "Expand", {x}, {{"shape", shape}}, output);
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    if (wanted[probe][*repeated] != sizes_[probe])
      throw DataError(fmt::format("makes {} of one", wanted[probe][*repeated]));
  }
  return repeat_samples(name, emit(name + ".one", "Expand", {x}, {{"shape", shape}}), *repeated, output);
}

}  // namespace rookery
