#include "fusion/inference/whole_model.hpp"

#include <algorithm>
#include <utility>

namespace rookery {
namespace {

std::vector<std::int64_t> batch_sizes(std::int64_t samples, std::int64_t batch) {
  std::vector<std::int64_t> sizes(samples / batch, batch);
  if (samples % batch != 0) sizes.push_back(samples % batch);
  return sizes;
}

CompileOptions inference_options(const Graph& graph, const std::vector<std::int64_t>& batches) {
  CompileOptions options{.kernels = choose_kernels(graph, batches.front())};
  options.inference_sizes.push_back(batches.front());
  if (batches.back() != batches.front()) options.inference_sizes.push_back(batches.back());
  return options;
}

Stage whole_stage(const Graph& graph, const StateDict& state) {
  check_state(graph, state);
  return std::move(cut(graph, std::vector<OpId>{0}).front());
}

}  // namespace

WholeModel::WholeModel(const Graph& graph, const StateDict& state, std::int64_t samples, std::int64_t batch)
    : batches(batch_sizes(samples, batch)),
      stage(whole_stage(graph, state)),
      executable(stage, inference_options(graph, batches), state) {}

void WholeModel::run(
    const SampleSource& source, std::span<const std::int64_t> ids,
    const std::function<void(std::span<const std::int64_t> ids, const MicroBatch& part)>& done) {
  for (const std::int64_t size : batches) {
    const MicroBatch part{.mode = Mode::kInference, .size = size};
    const auto samples = ids.first(size);
    for (std::size_t i = 0; i < stage.inputs.size(); ++i)
      source.fill(stage.inputs[i].value, samples, executable.input(i, part));
    executable.forward(part);
    done(samples, part);
    ids = ids.subspan(samples.size());
  }
}

ConstTensorView WholeModel::output(const std::string& value, const MicroBatch& part) {
  const auto found = std::ranges::find(stage.outputs, value, &StageOutput::value);
  ROOKERY_CHECK(found != stage.outputs.end(), "the model has no output '{}'", value);
  return executable.output(static_cast<std::size_t>(found - stage.outputs.begin()), part);
}

}  // namespace rookery
