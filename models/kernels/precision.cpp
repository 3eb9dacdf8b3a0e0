#include "models/kernels/precision.hpp"

#include <algorithm>
#include <set>

#include "models/base/error.hpp"
#include "models/graph/ops/recurrent.hpp"

namespace rookery {

namespace {

// Does a product gain more than the rounding of its operands costs?
bool is_large(const Op& matmul, const std::vector<TensorType>& types) {
  constexpr std::int64_t kLeast = 48;  // measured
  return std::ranges::all_of(matmul.inputs, [&](ValueId id) {
    const Shape& shape = types[id].shape;
    return shape.rank() >= 2 && shape[shape.rank() - 1] >= kLeast;
  });
}

}  // namespace

KernelChoice in_bf16(const Graph& graph, KernelChoice choice) {
  if (!has_bf16()) {
    throw ConfigError("precision bf16: this processor has no bf16 arithmetic (avx512_bf16); use fp32");
  }
  const std::vector<TensorType> types = graph.types(1);
  std::set<std::string> products;
  for (const Op& op : graph.ops()) {
    // Other sizes of recurrent layers have no loops.
    const bool is_recurrent = gate_orders(op) != nullptr && chosen_kernel(choice, op) == "onednn";
    if (op.type == "Conv" || op.type == "Gemm" || is_recurrent ||
        (op.type == "MatMul" && is_large(op, types)))
      products.insert(op.name);
  }
  const auto is_rounded = [&](const auto& entry) {
    return products.contains(chosen_op(graph, entry.first)) && !entry.second.ends_with("winograd");
  };
  // Gradients follow their op again: what was measured in f32 is not the fastest in bf16.
  std::erase_if(choice, [&](const auto& entry) { return !graph.has_op(entry.first) && is_rounded(entry); });
  for (auto& entry : choice) {
    if (is_rounded(entry))
      entry.second = asks_for(entry.second, "blocked") ? "onednn/blocked-bf16" : "onednn/bf16";
  }
  return choice;
}

}  // namespace rookery
