#include "models/graph/graph_copier.hpp"

namespace rookery {

GraphCopier::GraphCopier(const Graph& from) : from_(from), copies_(from.values().size(), kNoValue) {
  for (std::size_t id = 0; id < from.values().size(); ++id) {
    const Value& value = from.values()[id];
    ROOKERY_CHECK(value.like == kNoValue, "'{}' is a gradient: only forward graphs are copied", value.name);
    if (value.producer == kNoOp && value.kind != ValueKind::kConstant) copies_[id] = to_.add_source(value);
  }
}

ValueId GraphCopier::at(ValueId value) {
  if (value == kNoValue) return kNoValue;
  ValueId& copy = copies_.at(value);
  const Value& original = from_.value(value);
  if (copy == kNoValue && original.kind == ValueKind::kConstant) copy = to_.add_source(original);
  ROOKERY_CHECK(copy != kNoValue, "'{}' is not copied yet", from_.value(value).name);
  return copy;
}

void GraphCopier::replace(ValueId value, ValueId by) {
  copies_.at(value) = by;
}

OpId GraphCopier::copy(const Op& op) {
  Op copied = op;
  copied.outputs.clear();
  for (ValueId& input : copied.inputs) input = at(input);
  const OpId id = to_.add_op(std::move(copied), {});
  for (const ValueId output : op.outputs) replace(output, to_.add_output_of(id, from_.value(output).name));
  return id;
}

Graph GraphCopier::finish() {
  for (const ValueId output : from_.outputs()) to_.mark_output(at(output));
  return std::move(to_);
}

}  // namespace rookery
