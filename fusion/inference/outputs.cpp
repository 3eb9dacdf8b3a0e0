#include "fusion/inference/outputs.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "fusion/inference/whole_model.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/feed/sample_source.hpp"

namespace rookery {
namespace {

// Room for the outputs of `samples` samples.
StateDict empty_outputs(const Graph& model, std::int64_t samples) {
  StateDict outputs;
  for (const ValueId id : model.outputs()) {
    const std::string& name = model.value(id).name;
    const TensorType one = model.types(1)[id];
    const TensorType two = model.types(2)[id];
    std::vector<std::int64_t> dims(one.shape.dims().begin(), one.shape.dims().end());
    if (!dims.empty()) dims[0] *= 2;
    if (one.shape == two.shape || !std::ranges::equal(dims, two.shape.dims())) {
      throw ConfigError(
          fmt::format("its output {} is {} for one sample and {} for two: --outputs needs a row per sample",
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
  WholeModel whole(model, state, std::ssize(ids), batch);
  const SampleSource source(dataset, model, loss);
  StateDict outputs = empty_outputs(model, std::ssize(ids));
  std::size_t first = 0;
  whole.run(source, ids, [&](std::span<const std::int64_t> samples, const MicroBatch& part) {
    for (const StageOutput& output : whole.stage.outputs) {
      const auto made = whole.output(output.value, part).bytes();
      const auto all = outputs.at(output.value).view().bytes();
      std::memcpy(all.data() + first * (made.size() / samples.size()), made.data(), made.size());
    }
    first += samples.size();
  });
  return outputs;
}

}  // namespace rookery
