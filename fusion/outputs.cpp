#include "fusion/outputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "models/base/error.hpp"
#include "models/graph/stage.hpp"
#include "models/runtime/executable.hpp"
#include "trainer/sample_source.hpp"

namespace rookery {
namespace {

// Room for the outputs of `samples` samples.
StateDict empty_outputs(const Graph& model, std::int64_t samples) {
  StateDict outputs;
  for (const ValueId id : model.outputs()) {
    const std::string& name = model.value(id).name;
    const TensorType one = model.types(1)[static_cast<std::size_t>(id)];
    const TensorType two = model.types(2)[static_cast<std::size_t>(id)];
    std::vector<std::int64_t> dims(one.shape.dims().begin(), one.shape.dims().end());
    if (!dims.empty()) dims[0] *= 2;
    if (one.shape == two.shape || !std::ranges::equal(dims, two.shape.dims())) {
      throw ConfigError(fmt::format("its output {} is {} of one sample and {} of two: no row per sample",
                                    name, one.to_string(), two.to_string()));
    }
    dims[0] = samples;
    outputs.emplace(name, Tensor(one.dtype, Shape(dims)));
  }
  return outputs;
}

}  // namespace

StateDict model_outputs(const Graph& model, const StateDict& state, const Dataset& dataset,
                        const LossSettings& loss, std::span<const std::int64_t> ids, std::int64_t batch) {
  check_state(model, state);
  const SampleSource source(dataset, model, loss);
  StateDict outputs = empty_outputs(model, std::ssize(ids));
  batch = std::min(batch, std::ssize(ids));
  CompileOptions options{.inference_sizes = {batch}, .kernels = choose_kernels(model, batch)};
  if (const std::int64_t rest = std::ssize(ids) % batch; rest != 0) options.inference_sizes.push_back(rest);
  const std::vector<Stage> whole = cut(model, std::vector<OpId>{0});
  Executable executable(whole[0], options, state);
  for (std::int64_t first = 0; first < std::ssize(ids); first += batch) {
    const MicroBatch part{.mode = Mode::kInference, .size = std::min(batch, std::ssize(ids) - first)};
    const auto samples = ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(part.size));
    for (std::size_t i = 0; i < whole[0].inputs.size(); ++i)
      source.fill(whole[0].inputs[i].value, samples, executable.input(i, part));
    executable.forward(part);
    for (std::size_t i = 0; i < whole[0].outputs.size(); ++i) {
      const auto made = executable.output(i, part).bytes();
      const auto all = outputs.at(whole[0].outputs[i].value).view().bytes();
      const std::size_t row = made.size() / static_cast<std::size_t>(part.size);
      std::memcpy(all.data() + static_cast<std::size_t>(first) * row, made.data(), made.size());
    }
  }
  return outputs;
}

}  // namespace rookery
