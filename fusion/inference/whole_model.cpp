#include "fusion/inference/whole_model.hpp"

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

}  // namespace rookery
