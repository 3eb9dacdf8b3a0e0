// A graph of typed operations over named values, with the operators and semantics of ONNX
// (https://onnx.ai/onnx/operators/, opset 17); operators of our own (losses, gradients) are
// described with their definitions (op_definition.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "models/tensor/tensor.hpp"

namespace rookery {

using ValueId = int;
using OpId = int;
constexpr ValueId kNoValue = -1;  // an optional input or output that is not there
constexpr OpId kNoOp = -1;

enum class ValueKind : std::uint8_t {
  kInput,       // handed in with every micro-batch
  kParameter,   // trained
  kBuffer,      // state that is not trained: running statistics, counters, what is fixed
  kConstant,    // data that belongs to the model as its ops do: no state, the same in every run
  kActivation,  // made by an op
};

// The values that a parameter or buffer has before training. Uniform is over [-bound, bound); normal has the
// mean 0 and the deviation `bound`.
struct Initializer {
  enum class Kind : std::uint8_t { kZeros, kOnes, kConstant, kUniform, kNormal } kind = Kind::kZeros;
  float bound = 0;  // of normal numbers the deviation, of a constant its value
};

struct Value {
  std::string name;
  ValueKind kind = ValueKind::kActivation;
  TensorType type;          // inputs (whose first dimension may be kBatch), parameters, buffers, constants
  Initializer initializer;  // parameters, buffers
  // Buffers that no op changes: parameters that are not trained, a module's own tensors, and the running
  // statistics of a BatchNormalization that stays as it is in evaluation. They may be on several stages.
  bool fixed = false;
  OpId producer = kNoOp;                         // activations
  ValueId like = kNoValue;                       // gradients: they have the type of this value
  std::shared_ptr<const Tensor> data = nullptr;  // constants; shared by all copies of the graph
};

using Attribute =
    std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>>;

struct Op {
  std::string name;  // unique in the graph, the same in every cut
  std::string type;  // "Conv"
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::map<std::string, Attribute> attributes;

  // The attribute, or the default where it is absent; ConfigError naming the op when it is there
  // with another type.
  std::int64_t integer(const std::string& key, std::int64_t otherwise) const;
  float number(const std::string& key, float otherwise) const;
  std::string text(const std::string& key, std::string otherwise) const;
  std::vector<std::int64_t> integers(const std::string& key, std::vector<std::int64_t> otherwise) const;
  std::vector<float> numbers(const std::string& key, std::vector<float> otherwise) const;
};

// A directed acyclic graph; ops() is in an order in which every op follows those it needs. Values
// and ops are never removed. Names of values are unique, and so are names of ops.
class Graph {
 public:
  ValueId add_input(std::string name, TensorType type);
  ValueId add_parameter(std::string name, TensorType type, Initializer initializer = {});
  ValueId add_buffer(std::string name, TensorType type, Initializer initializer = {});
  // A buffer that is fixed.
  ValueId add_fixed(std::string name, TensorType type, Initializer initializer = {});
  // Makes a parameter a fixed buffer, or a fixed buffer a parameter.
  void set_trained(ValueId value, bool trained);
  ValueId add_constant(std::string name, std::shared_ptr<const Tensor> data);
  // An input, parameter, buffer or constant like this one of another graph.
  ValueId add_source(const Value& value);
  // An input that has the type of another value.
  ValueId add_input_like(std::string name, ValueId like);
  // Appends an op that makes new values named `outputs`; they follow the op's inputs, which must
  // exist. Throws ConfigError when the names are taken.
  OpId add_op(Op op, const std::vector<std::string>& outputs);
  // One more output of an op that is there already.
  ValueId add_output_of(OpId op, std::string name);
  ValueId add_output_like(OpId op, std::string name, ValueId like);
  void mark_output(ValueId value);

  const std::vector<Value>& values() const { return values_; }
  const std::vector<Op>& ops() const { return ops_; }
  const Value& value(ValueId id) const { return values_.at(id); }
  const Op& op(OpId id) const { return ops_.at(id); }
  Op& op(OpId id) { return ops_.at(id); }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  const std::vector<ValueId>& parameters() const { return parameters_; }
  const std::vector<ValueId>& buffers() const { return buffers_; }
  const std::vector<ValueId>& constants() const { return constants_; }
  bool has_op(const std::string& name) const { return op_names_.contains(name); }
  // `wanted`, or `wanted` with a number where it is taken.
  std::string unused_op_name(const std::string& wanted) const;
  std::string unused_value_name(const std::string& wanted) const;
  std::optional<ValueId> find(std::string_view name) const;
  // ConfigError when no value has this name.
  ValueId at(std::string_view name) const;

  // The type of every value when the micro-batch has `batch` samples, by ValueId. Throws
  // ConfigError naming op, operator and shapes where they do not fit.
  std::vector<TensorType> types(std::int64_t batch) const;

 private:
  ValueId add_value(Value value);

  std::vector<Value> values_;
  std::vector<Op> ops_;
  std::vector<ValueId> inputs_, outputs_, parameters_, buffers_, constants_;
  // Of std::string_view, too, without a copy.
  struct NameHash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard's name
    std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  std::unordered_map<std::string, ValueId, NameHash, std::equal_to<>> by_name_;
  std::unordered_set<std::string> op_names_;
};

// The type of every value, by ValueId, with kBatch for dimensions that follow the micro-batch.
std::vector<TensorType> batch_types(const Graph& graph);

}  // namespace rookery
