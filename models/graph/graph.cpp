#include "models/graph/graph.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/graph/op_definition.hpp"

namespace rookery {
namespace {

template <typename T>
T attribute_or(const Op& op, const std::string& key, T otherwise) {
  const auto found = op.attributes.find(key);
  if (found == op.attributes.end()) return otherwise;
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr) {
    throw ConfigError(fmt::format("op '{}' ({}): attribute '{}' has the wrong type", op.name, op.type, key));
  }
  return *value;
}

template <typename Taken>
std::string unused_name(const std::string& wanted, const Taken& is_taken) {
  std::string name = wanted;
  for (int i = 2; is_taken(name); ++i) name = fmt::format("{}.{}", wanted, i);
  return name;
}

}  // namespace

std::int64_t Op::integer(const std::string& key, std::int64_t otherwise) const {
  return attribute_or(*this, key, otherwise);
}

float Op::number(const std::string& key, float otherwise) const {
  return attribute_or(*this, key, otherwise);
}

std::string Op::text(const std::string& key, std::string otherwise) const {
  return attribute_or(*this, key, std::move(otherwise));
}

std::vector<std::int64_t> Op::integers(const std::string& key, std::vector<std::int64_t> otherwise) const {
  return attribute_or(*this, key, std::move(otherwise));
}

std::vector<float> Op::numbers(const std::string& key, std::vector<float> otherwise) const {
  return attribute_or(*this, key, std::move(otherwise));
}

ValueId Graph::add_value(Value value) {
  if (value.name.empty()) throw ConfigError("a value of the graph has no name");
  const auto id = static_cast<ValueId>(values_.size());
  if (!by_name_.emplace(value.name, id).second) {
    throw ConfigError(fmt::format("two values of the graph are called '{}'", value.name));
  }
  values_.push_back(std::move(value));
  return id;
}

ValueId Graph::add_input(std::string name, TensorType type) {
  const ValueId id = add_value({.name = std::move(name), .kind = ValueKind::kInput, .type = type});
  inputs_.push_back(id);
  return id;
}

ValueId Graph::add_input_like(std::string name, ValueId like) {
  const ValueId id = add_value({.name = std::move(name), .kind = ValueKind::kInput, .like = like});
  inputs_.push_back(id);
  return id;
}

ValueId Graph::add_parameter(std::string name, TensorType type, Initializer initializer) {
  const ValueId id = add_value(
      {.name = std::move(name), .kind = ValueKind::kParameter, .type = type, .initializer = initializer});
  parameters_.push_back(id);
  return id;
}

ValueId Graph::add_buffer(std::string name, TensorType type, Initializer initializer) {
  const ValueId id = add_value(
      {.name = std::move(name), .kind = ValueKind::kBuffer, .type = type, .initializer = initializer});
  buffers_.push_back(id);
  return id;
}

ValueId Graph::add_fixed(std::string name, TensorType type, Initializer initializer) {
  const ValueId id = add_buffer(std::move(name), type, initializer);
  values_[id].fixed = true;
  return id;
}

void Graph::set_trained(ValueId value, bool trained) {
  Value& changed = values_.at(value);
  ROOKERY_CHECK(changed.kind == ValueKind::kParameter || changed.fixed, "'{}' is no parameter", changed.name);
  if (trained == (changed.kind == ValueKind::kParameter)) return;
  std::vector<ValueId>& from = trained ? buffers_ : parameters_;
  std::vector<ValueId>& to = trained ? parameters_ : buffers_;
  std::erase(from, value);
  to.insert(std::ranges::lower_bound(to, value), value);
  changed.kind = trained ? ValueKind::kParameter : ValueKind::kBuffer;
  changed.fixed = !trained;
}

ValueId Graph::add_constant(std::string name, std::shared_ptr<const Tensor> data) {
  ROOKERY_CHECK(data != nullptr, "constant '{}' has no data", name);
  const TensorType type = data->type();
  const ValueId id = add_value({.name = std::move(name),
                                .kind = ValueKind::kConstant,
                                .type = type,
                                .initializer = {},
                                .data = std::move(data)});
  constants_.push_back(id);
  return id;
}

ValueId Graph::add_source(const Value& value) {
  switch (value.kind) {
    case ValueKind::kInput:
      return add_input(value.name, value.type);
    case ValueKind::kParameter:
      return add_parameter(value.name, value.type, value.initializer);
    case ValueKind::kBuffer:
      return value.fixed ? add_fixed(value.name, value.type, value.initializer)
                         : add_buffer(value.name, value.type, value.initializer);
    case ValueKind::kConstant:
      return add_constant(value.name, value.data);
    case ValueKind::kActivation:
      break;
  }
  ROOKERY_CHECK(false, "'{}' is made by an op", value.name);
}

OpId Graph::add_op(Op op, const std::vector<std::string>& outputs) {
  op_definition(op.type);
  if (!op_names_.insert(op.name).second) {
    throw ConfigError(fmt::format("two ops of the graph are called '{}'", op.name));
  }
  for (const ValueId input : op.inputs) {
    ROOKERY_CHECK(input == kNoValue || (input >= 0 && input < std::ssize(values_)), "op {} reads value {}",
                  op.name, input);
  }
  const auto id = static_cast<OpId>(ops_.size());
  ops_.push_back(std::move(op));
  for (const std::string& output : outputs) add_output_of(id, output);
  return id;
}

ValueId Graph::add_output_of(OpId op, std::string name) {
  return add_output_like(op, std::move(name), kNoValue);
}

ValueId Graph::add_output_like(OpId op_id, std::string name, ValueId like) {
  const ValueId id = add_value({.name = std::move(name), .producer = op_id, .like = like});
  op(op_id).outputs.push_back(id);
  return id;
}

void Graph::mark_output(ValueId value) {
  ROOKERY_CHECK(value >= 0 && value < std::ssize(values_), "output {}", value);
  outputs_.push_back(value);
}

std::string Graph::unused_op_name(const std::string& wanted) const {
  return unused_name(wanted, [&](const std::string& name) { return has_op(name); });
}

std::string Graph::unused_value_name(const std::string& wanted) const {
  return unused_name(wanted, [&](const std::string& name) { return find(name).has_value(); });
}

std::optional<ValueId> Graph::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

ValueId Graph::at(std::string_view name) const {
  const std::optional<ValueId> id = find(name);
  if (!id) throw ConfigError(fmt::format("the graph has no value called '{}'", name));
  return *id;
}

std::vector<TensorType> Graph::types(std::int64_t batch) const {
  std::vector<TensorType> types(values_.size());
  const auto type_of = [&](ValueId id) { return id == kNoValue ? TensorType{} : types[id]; };
  for (std::size_t id = 0; id < values_.size(); ++id) {
    const Value& value = values_[id];
    if (value.producer == kNoOp && value.like == kNoValue) {
      types[id] = {value.type.dtype, value.type.shape.with_batch(batch)};
    }
  }
  // Inputs that are like another value may be like an activation: they are only read by gradient
  // ops, which follow the op that makes it.
  for (const Op& op : ops_) {
    std::vector<TensorType> inputs;
    for (const ValueId input : op.inputs) {
      if (input != kNoValue && value(input).producer == kNoOp && value(input).like != kNoValue) {
        types[input] = type_of(value(input).like);
      }
      inputs.push_back(type_of(input));
    }
    const auto describe = [&] {
      std::string shapes;
      for (const TensorType& type : inputs) shapes += (shapes.empty() ? "" : ", ") + type.to_string();
      return fmt::format("op '{}' ({} of {})", op.name, op.type, shapes);
    };
    const bool gradient = std::ranges::any_of(
        op.outputs, [&](ValueId output) { return output != kNoValue && value(output).like != kNoValue; });
    if (gradient) {
      for (const ValueId output : op.outputs) {
        if (output != kNoValue) types[output] = type_of(value(output).like);
      }
      continue;
    }
    const std::vector<TensorType> outputs = with_context(describe(), [&] { return infer_types(op, inputs); });
    ROOKERY_CHECK(outputs.size() >= op.outputs.size(), "{} infers {} of {} outputs", describe(),
                  outputs.size(), op.outputs.size());
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const ValueId output = op.outputs[i];
      if (output != kNoValue && value(output).kind == ValueKind::kActivation) {
        types[output] = outputs[i];
      }
    }
  }
  for (std::size_t id = 0; id < values_.size(); ++id) {
    if (values_[id].producer == kNoOp && values_[id].like != kNoValue) types[id] = type_of(values_[id].like);
  }
  return types;
}

std::vector<TensorType> batch_types(const Graph& graph) {
  std::vector<TensorType> of_two = graph.types(2);
  const std::vector<TensorType> of_three = graph.types(3);
  for (std::size_t id = 0; id < of_two.size(); ++id) {
    Shape& shape = of_two[id].shape;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] != of_three[id].shape[axis]) shape[axis] = kBatch;
    }
  }
  return of_two;
}

}  // namespace rookery
