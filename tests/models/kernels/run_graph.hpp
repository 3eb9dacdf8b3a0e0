// Runs whole graphs, forward or differentiated, op by op.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/graph/op_definition.hpp"
#include "tests/models/kernels/op_case.hpp"

namespace rookery::kernel_tests {

// The values of a graph by ValueId, each in memory of its own. Empty when this back end has none of them; ops
// that it lacks run on "eigen".
inline std::vector<Tensor> run_graph(const Graph& graph, const std::map<ValueId, Tensor>& given,
                                     const std::string& backend, const StepContext& context,
                                     std::int64_t batch = 1) {
  const auto types = graph.types(batch);
  std::vector<Tensor> values;
  for (const TensorType& type : types) values.emplace_back(type);
  for (const ValueId id : graph.constants()) copy(graph.value(id).data->view(), values[id].view());
  for (const auto& [id, tensor] : given) copy(tensor.view(), values[id].view());
  bool served = false;
  for (const Op& op : graph.ops()) {
    std::vector<TensorType> input_types, output_types;
    std::vector<ConstTensorView> inputs;
    std::vector<TensorView> outputs;
    for (const ValueId id : op.inputs) {
      inputs.push_back(id == kNoValue ? ConstTensorView{} : values[id].view());
      input_types.push_back(id == kNoValue ? TensorType{} : types[id]);
    }
    for (const ValueId id : op.outputs) {
      outputs.push_back(id == kNoValue ? TensorView{} : values[id].view());
      output_types.push_back(id == kNoValue ? TensorType{} : types[id]);
      if (id != kNoValue && !std::ranges::count(op.inputs, id)) poison(outputs.back().bytes(), 0xFF);
    }
    if (is_view(op)) {
      std::ranges::copy(inputs[0].bytes(), outputs[0].bytes().begin());
      served |= backend == "eigen";
      continue;
    }
    const KernelRequest request{.op = op, .inputs = input_types, .outputs = output_types};
    auto kernel = make_kernel_of(backend, request);
    served |= kernel != nullptr;
    if (!kernel) kernel = make_kernel("eigen", request);
    AlignedBuffer scratch(kernel->scratch_bytes());
    poison({scratch.data(), scratch.size()}, 0xFF);
    kernel->run(inputs, outputs, scratch.data(), context);
  }
  if (!served) values.clear();
  return values;
}

}  // namespace rookery::kernel_tests
