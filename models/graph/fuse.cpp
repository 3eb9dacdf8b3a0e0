#include "models/graph/fuse.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "models/graph/graph_copier.hpp"

namespace rookery {
namespace {

bool takes_activation(const Op& op) {
  static const std::set<std::string> types{"Add", "BatchNormalization", "Conv", "Gemm"};
  return types.contains(op.type) && op.outputs.size() == 1 && !has_activation(op);
}

// The ops that read each value; a value that leaves the graph has one more reader, kNoOp.
std::map<ValueId, std::vector<OpId>> readers_of(const Graph& graph) {
  std::map<ValueId, std::vector<OpId>> readers;
  for (OpId id = 0; id < std::ssize(graph.ops()); ++id) {
    for (const ValueId input : graph.op(id).inputs) readers[input].push_back(id);
  }
  for (const ValueId output : graph.outputs()) readers[output].push_back(kNoOp);
  return readers;
}

}  // namespace

bool has_activation(const Op& op) {
  return op.attributes.contains(kActivation);
}

Graph fuse(const Graph& forward) {
  auto readers = readers_of(forward);
  std::set<OpId> fused;
  GraphCopier copier(forward);
  for (OpId id = 0; id < std::ssize(forward.ops()); ++id) {
    if (fused.contains(id)) continue;
    Op op = forward.op(id);
    const auto& after = readers[op.outputs.at(0)];
    if (takes_activation(op) && after.size() == 1 && after[0] != kNoOp &&
        forward.op(after[0]).type == "Relu") {
      const Op& relu = forward.op(after[0]);
      op.attributes[kActivation] = "relu";
      op.attributes[kActivationOp] = relu.name;
      op.outputs = relu.outputs;
      fused.insert(after[0]);
    }
    copier.copy(op);
  }
  return copier.finish();
}

}  // namespace rookery
