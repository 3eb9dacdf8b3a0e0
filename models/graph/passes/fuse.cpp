#include "models/graph/passes/fuse.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "models/graph/graph_copier.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/graph/ops/batch_norm.hpp"

namespace rookery {
namespace {

bool takes_activation(const Op& op) {
  static const std::set<std::string> types{"Add", "BatchNormalization", "Conv", "Gemm"};
  return types.contains(op.type) && op.outputs.size() == 1 && !has_activation(op);
}

void set_activation(Op& op, const Op& relu) {
  op.attributes.insert_or_assign(kActivation, std::string("relu"));
  op.attributes.insert_or_assign(kActivationOp, relu.name);
}

// Who reads the values of a graph.
class Readers {
 public:
  explicit Readers(const Graph& graph) : graph_(graph) {
    for (OpId id = 0; id < std::ssize(graph.ops()); ++id) {
      for (const ValueId input : graph.op(id).inputs) readers_[input].push_back(id);
    }
    for (const ValueId output : graph.outputs()) readers_[output].push_back(kNoOp);
  }

  // The op of this type that alone reads output 0 of `op`; kNoOp where there is none or somebody else does,
  // such as whoever gets the graph's outputs.
  OpId only(const std::string& type, const Op& op) const {
    const auto found = readers_.find(op.outputs.at(0));
    if (found == readers_.end() || found->second.size() != 1) return kNoOp;
    const OpId reader = found->second[0];
    return reader != kNoOp && graph_.op(reader).type == type ? reader : kNoOp;
  }

 private:
  const Graph& graph_;  // outlives this: both live in fuse()
  std::map<ValueId, std::vector<OpId>> readers_;
};

// Does an op between the two read what the first one reads? Moved behind it, the first would come earlier in
// the sums of their gradients, and later to buffers that they share.
bool reads_the_same_between(const Graph& forward, OpId first, OpId last) {
  const std::vector<ValueId>& inputs = forward.op(first).inputs;
  for (OpId id = first + 1; id < last; ++id) {
    const auto is_one = [&](ValueId input) {
      return input != kNoValue && std::ranges::find(inputs, input) != inputs.end();
    };
    if (std::ranges::any_of(forward.op(id).inputs, is_one)) return true;
  }
  return false;
}

// The BatchNormalization that each Add becomes part of: of two the later one.
std::map<OpId, OpId> normalized_sums(const Graph& forward, const Readers& readers) {
  std::map<OpId, OpId> sums;
  const std::vector<TensorType> of_two = forward.types(2), of_three = forward.types(3);
  for (OpId id = 0; id < std::ssize(forward.ops()); ++id) {
    const Op& op = forward.op(id);
    const OpId sum = op.type == "BatchNormalization" ? readers.only("Add", op) : kNoOp;
    if (sum == kNoOp || reads_the_same_between(forward, id, sum)) continue;
    const auto& inputs = forward.op(sum).inputs;
    const auto have_same_types = [&](const std::vector<TensorType>& types) {
      return types[inputs[0]] == types[inputs[1]];
    };
    if (have_same_types(of_two) && have_same_types(of_three)) sums[sum] = id;
  }
  return sums;
}

void add_to(Op& norm, const Op& sum) {
  const ValueId other = sum.inputs[0] == norm.outputs[0] ? sum.inputs[1] : sum.inputs[0];
  norm.inputs.resize(kBatchNormAdded, kNoValue);
  norm.inputs.push_back(other);
  norm.outputs = sum.outputs;
}

}  // namespace

Graph fuse(const Graph& forward) {
  const Readers readers(forward);
  const std::map<OpId, OpId> sums = normalized_sums(forward, readers);
  std::set<OpId> fused;  // with the op before, or behind
  for (const auto& [sum, norm] : sums) fused.insert(norm);
  std::map<OpId, const Op*> activated;  // MaxPool -> the Relu that it takes over
  GraphCopier copier(forward);
  for (OpId id = 0; id < std::ssize(forward.ops()); ++id) {
    if (fused.contains(id)) continue;
    Op op = forward.op(id);
    if (const auto sum = sums.find(id); sum != sums.end()) {
      op = forward.op(sum->second);
      add_to(op, forward.op(id));
    }
    if (op.type == "Relu") {
      if (const OpId pool = readers.only("MaxPool", op); pool != kNoOp) {
        activated.emplace(pool, &forward.op(id));
        copier.replace(op.outputs[0], copier.at(op.inputs[0]));
        continue;
      }
    }
    if (activated.contains(id)) set_activation(op, *activated.at(id));
    if (takes_activation(op)) {
      const OpId relu = readers.only("Relu", op);
      if (relu != kNoOp && readers.only("MaxPool", forward.op(relu)) == kNoOp) {
        set_activation(op, forward.op(relu));
        op.outputs = forward.op(relu).outputs;
        fused.insert(relu);
      }
    }
    copier.copy(op);
  }
  return copier.finish();
}

}  // namespace rookery
