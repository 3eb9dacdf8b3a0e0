#include "clusterize/training_task.hpp"

#include <fmt/format.h>

#include "models/base/error.hpp"
#include "models/graph/loss.hpp"
#include "models/graph/recognize.hpp"
#include "models/kernels/precision.hpp"
#include "models/zoo/open_model.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/sample_source.hpp"

namespace rookery {

TrainingTask make_task(const TrainingSettings& settings, const std::filesystem::path& node_data,
                       MeasuredKernels* measured) {
  OpenedModel model = open_model(settings.model, node_data);
  TrainingTask task = make_task(model.graph, *open_dataset(settings.data, node_data), settings, measured);
  task.model_weights = std::move(model.weights);
  return task;
}

namespace {

void check_tied(const TrainingSettings& settings, const Graph& model) {
  for (const auto& [second, first] : settings.tied) {
    const auto id = model.find(first);
    if (!id || model.value(*id).kind != ValueKind::kParameter)
      throw ConfigError(fmt::format("tied/{}: '{}' is no parameter of {}", second, first, settings.model));
    if (model.find(second))
      throw ConfigError(fmt::format("tied/{}: {} has a tensor of that name", second, settings.model));
  }
}

}  // namespace

TrainingTask make_task(const Graph& model, const Dataset& dataset, const TrainingSettings& settings,
                       MeasuredKernels* measured) {
  check_tied(settings, model);
  TrainingTask task{.graph = recognize_attention(model), .settings = settings};
  with_context(fmt::format("{} with {}", settings.model, settings.data), [&] {
    add_loss(task.graph, settings.loss, target_types(dataset, settings.loss));
    const SampleSource fits(dataset, task.graph, settings.loss);
    check_labels(dataset, task.graph);
  });
  task.data = data_sizes(dataset, settings);
  if (task.data.train_samples == 0) {
    throw ConfigError(fmt::format("train_fraction {} of the {} samples of {} leaves none to train on",
                                  settings.train_fraction, dataset.size(), settings.data));
  }
  check_validation(settings, task.data);
  task.kernels =
      choose_kernels(task.graph, micro_batch_sizes(settings, settings.batch_size).front(), measured);
  if (settings.precision == "bf16") task.kernels = in_bf16(task.graph, std::move(task.kernels));
  return task;
}

}  // namespace rookery
