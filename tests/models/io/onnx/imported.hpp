// Helpers that ask imported models what tests want to know.
#pragma once

#include <string>
#include <vector>

#include "models/graph/stage.hpp"
#include "models/graph/state/state_dict.hpp"
#include "models/kernels/choose.hpp"
#include "models/runtime/executable.hpp"

namespace rookery::onnx_tests {

inline std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> names;
  for (const ValueId id : ids) names.push_back(graph.value(id).name);
  return names;
}

// The first output for this input.
inline std::vector<float> run(const Graph& graph, const StateDict& state, ConstTensorView x) {
  const std::vector<Stage> whole = cut(graph, std::vector<OpId>{0});
  const std::int64_t samples = x.shape()[0];
  const CompileOptions options{.inference_sizes = {samples}, .kernels = choose_kernels(graph, samples)};
  Executable executable(whole[0], options, state);
  const MicroBatch batch{.mode = Mode::kInference, .size = samples};
  copy(x, executable.input(0, batch));
  executable.forward(batch);
  const auto made = executable.output(0, batch).as<float>();
  return {made.begin(), made.end()};
}

}  // namespace rookery::onnx_tests
