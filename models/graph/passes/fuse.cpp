#include "models/graph/passes/fuse.hpp"

#include <map>
#include <set>
#include <string>

#include "models/graph/graph_copier.hpp"
#include "models/graph/op_attributes.hpp"

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

}  // namespace

Graph fuse(const Graph& forward) {
  const Readers readers(forward);
  std::set<OpId> fused;                 // with the op before
  std::map<OpId, const Op*> activated;  // MaxPool -> the Relu that it takes over
  GraphCopier copier(forward);
  for (OpId id = 0; id < std::ssize(forward.ops()); ++id) {
    if (fused.contains(id)) continue;
    Op op = forward.op(id);
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
