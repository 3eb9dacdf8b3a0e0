// A graph under construction from the nodes of a foreign file. Internal to this module.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "models/graph/state/state_dict.hpp"
#include "models/io/onnx/import/graph/known.hpp"
#include "models/io/onnx/onnx.hpp"

namespace rookery {

using Attributes = std::map<std::string, Attribute>;

// A parameter or buffer of the file that no op has read yet.
struct Weight {
  std::string name;
  TensorType type;
  std::shared_ptr<const Tensor> data;  // nullptr: the file has none
  Initializer initializer;             // then
  bool trained = true;
};

struct Sequence;

// The thing that a name of the file stands for: nothing (an input that is left out), a value of the graph,
// something that is known without the samples, a weight, or a sequence of these.
using Operand = std::variant<std::monostate, ValueId, Known, std::shared_ptr<const Weight>,
                             std::shared_ptr<const Sequence>>;

// The parts that a SplitToSequence makes. Only SequenceAt reads them: graphs have no sequences.
struct Sequence {
  std::vector<Operand> parts;
};

class GraphImporter {
 public:
  // `fixed`: the batch size that the file was exported for, where it is exported for one alone.
  explicit GraphImporter(std::optional<std::int64_t> fixed);

  std::optional<std::int64_t> fixed_batch() const { return fixed_; }
  // The file says what the module was like: layers stay in its modes. `counters`: of BatchNorm, by name.
  void keep_modes(StateDict counters = {}) {
    keeps_modes_ = true;
    counters_ = std::move(counters);
  }
  bool keeps_modes() const { return keeps_modes_; }
  Operand add_input(const std::string& name, const TensorType& type);
  void mark_output(const Operand& operand, const std::string& name);
  OnnxModel finish() { return std::move(model_); }

  // The type of an operand at a probe, or its shapes at all of them.
  TensorType type(const Operand& operand, std::size_t probe) const;
  AtProbes<Shape> shapes(const Operand& operand) const;
  // The dimensions of a value from `start` up to `end`, as ONNX's Shape gives them.
  Known shape_of(const Operand& operand, std::int64_t start, std::int64_t end) const;

  // Appends an op, or computes what it makes where all inputs are known. `attributes`: in the graph they must
  // be the same at all probes. Outputs have these names; an empty one gets one. ConfigError or DataError
  // where the op does not fit its inputs.
  std::vector<Operand> emit(const std::string& name, const std::string& type,
                            const std::vector<Operand>& inputs, const AtProbes<Attributes>& attributes,
                            const std::vector<std::string>& outputs);
  // Appends an op with one output.
  Operand emit(const std::string& name, const std::string& type, const std::vector<Operand>& inputs,
               const Attributes& attributes = {}, const std::string& output = {});
  // Appends a Reshape or an Expand, whose shape may depend on the batch size.
  Operand reshape(const std::string& name, const Operand& x, const AtProbes<std::vector<std::int64_t>>& to,
                  bool allow_zero, const std::string& output);
  Operand expand(const std::string& name, const Operand& x, const AtProbes<std::vector<std::int64_t>>& to,
                 const std::string& output);

  // The parameter or buffer of the graph for a weight; a number of running batches goes with means.
  ValueId parameter(const Weight& weight);
  // `fixed`: as in evaluation, no op changes it.
  Operand buffer(const Operand& operand, bool fixed);
  Operand counter_of(const Operand& running_mean);

  Folder& folder() { return folder_; }

 private:
  ValueId value_of(const Operand& operand, const std::string& hint);
  ValueId constant(const Known& known, const std::string& hint);
  Operand repeat_samples(const std::string& name, const Operand& one, int axis, const std::string& output);
  Operand batch_of_true(const std::string& name, int axis, int rank);
  void check_flatten(const Operand& x, const Attributes& attributes) const;
  AtProbes<std::vector<TensorType>> infer(const Op& op, const std::vector<Operand>& inputs,
                                          const AtProbes<Attributes>& attributes) const;
  std::vector<Operand> fold(const Op& op, const std::vector<Operand>& inputs,
                            const AtProbes<Attributes>& attributes, std::size_t outputs);

  std::optional<std::int64_t> fixed_;
  bool keeps_modes_ = false;
  StateDict counters_;
  AtProbes<std::int64_t> sizes_;
  OnnxModel model_;
  std::vector<AtProbes<TensorType>> types_;  // by ValueId
  std::map<const Tensor*, ValueId> constants_;
  Folder folder_;
};

}  // namespace rookery
