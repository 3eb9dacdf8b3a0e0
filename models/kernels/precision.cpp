#include "models/kernels/precision.hpp"

#include <algorithm>

#include "models/base/error.hpp"

namespace rookery {

KernelChoice in_bf16(const Graph& graph, KernelChoice choice) {
  if (!has_bf16()) {
    throw ConfigError("precision bf16: this processor has no bf16 arithmetic (avx512_bf16); use fp32");
  }
  const std::set<std::string> blocked = chosen_blocked(choice);
  const auto is_product = [&](const std::string& entry) {
    const std::string name = chosen_op(graph, entry);
    return std::ranges::any_of(graph.ops(), [&](const Op& op) {
      return op.name == name && (op.type == "Conv" || op.type == "Gemm");
    });
  };
  // Gradients follow their op again: what was measured in f32 is not the fastest in bf16.
  std::erase_if(choice,
                [&](const auto& entry) { return !graph.has_op(entry.first) && is_product(entry.first); });
  for (auto& [op, entry] : choice) {
    if (is_product(op)) entry = blocked.contains(op) ? "onednn/blocked-bf16" : "onednn/bf16";
  }
  return choice;
}

}  // namespace rookery
