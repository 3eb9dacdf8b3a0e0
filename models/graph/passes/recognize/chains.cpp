#include "models/graph/passes/recognize/chains.hpp"

#include "models/graph/graph_copier.hpp"

namespace rookery {

ChainFinder::ChainFinder(const Graph& graph) : graph_(graph), readers_(graph.values().size()) {
  for (const Op& op : graph.ops()) {
    for (const ValueId input : op.inputs) {
      if (input != kNoValue) ++readers_[input];
    }
  }
  for (const ValueId output : graph.outputs()) ++readers_[output];
}

const Op* ChainFinder::producer(ValueId id) const {
  const OpId op = graph_.value(id).producer;
  return op == kNoOp ? nullptr : &graph_.op(op);
}

const Op* ChainFinder::producer(ValueId id, const std::string& type) const {
  const Op* op = producer(id);
  return op == nullptr || op->type != type ? nullptr : op;
}

const Op* ChainFinder::step(ValueId value, const std::string& type, std::set<OpId>& inside,
                            int readers) const {
  const Op* op = producer(value, type);
  if (op == nullptr || readers_[value] != readers || op->outputs.size() != 1) return nullptr;
  inside.insert(graph_.value(value).producer);
  return op;
}

std::optional<float> ChainFinder::number(ValueId id) const {
  const Value& value = graph_.value(id);
  const bool is_one = value.kind == ValueKind::kConstant && value.type.dtype == DType::kF32 &&
                      value.type.shape.elements() == 1;
  return is_one ? std::optional(value.data->as<float>()[0]) : std::nullopt;
}

Graph with_chains(const Graph& forward, const std::map<OpId, FoundChain>& by_last) {
  std::set<OpId> inside;
  for (const auto& [last, chain] : by_last) inside.insert(chain.inside.begin(), chain.inside.end());
  GraphCopier copier(forward);
  for (OpId id = 0; id < std::ssize(forward.ops()); ++id) {
    if (const auto found = by_last.find(id); found != by_last.end()) {
      copier.copy(found->second.op);
    } else if (!inside.contains(id)) {
      copier.copy(forward.op(id));
    }
  }
  return copier.finish();
}

}  // namespace rookery
