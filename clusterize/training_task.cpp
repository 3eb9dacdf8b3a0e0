#include "clusterize/training_task.hpp"

#include <fmt/format.h>

#include "models/base/error.hpp"
#include "models/graph/loss.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {

void check_fit(const Graph& model, const Dataset& dataset, const TrainingSettings& settings) {
  if (model.inputs().size() != 1 || model.outputs().size() != 1) {
    throw ConfigError(fmt::format("{} has {} inputs and {} outputs: a model to train has one of each",
                                  settings.model, model.inputs().size(), model.outputs().size()));
  }
  const std::vector<TensorType> types = model.types(1);
  const TensorType& input = types[static_cast<std::size_t>(model.inputs()[0])];
  const TensorType& output = types[static_cast<std::size_t>(model.outputs()[0])];
  if (input.shape.elements() != dataset.sample_elements()) {
    throw ConfigError(fmt::format("{} takes samples of {} values ({}), those of {} have {}", settings.model,
                                  input.shape.elements(), model.value(model.inputs()[0]).type.to_string(),
                                  settings.data, dataset.sample_elements()));
  }
  if (output.shape.elements() < dataset.classes()) {
    throw ConfigError(fmt::format("{} tells {} classes apart, {} has {}", settings.model,
                                  output.shape.elements(), settings.data, dataset.classes()));
  }
}

TrainingTask make_task(const TrainingSettings& settings, const std::filesystem::path& node_data) {
  TrainingTask task{.graph = zoo_model(settings.model), .settings = settings};
  const std::unique_ptr<Dataset> dataset = open_dataset(settings.data, node_data);
  check_fit(task.graph, *dataset, settings);
  const Split split = split_dataset(dataset->size(), settings);
  task.data = {std::ssize(split.train), std::ssize(split.validation)};
  if (task.data.train_samples == 0) {
    throw ConfigError(fmt::format("train_fraction {} of the {} samples of {} leaves none to train on",
                                  settings.train_fraction, dataset->size(), settings.data));
  }
  check_validation(settings, task.data);
  add_loss(task.graph, settings.loss);
  task.kernels = choose_kernels(task.graph, micro_batch_sizes(settings, settings.batch_size).front());
  return task;
}

}  // namespace rookery
