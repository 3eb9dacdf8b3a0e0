#include "clusterize/task/make_task.hpp"

#include <algorithm>
#include <iterator>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/machine/processors.hpp"
#include "models/base/process/terminal.hpp"
#include "models/graph/passes/freeze.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/passes/recognize/recognize.hpp"
#include "models/kernels/precision.hpp"
#include "models/zoo/open_model.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/feed/open_data.hpp"
#include "trainer/feed/sample_source.hpp"
#include "trainer/feed/split.hpp"

namespace rookery {
namespace {

// What nobody has said would be taken for trained.
void check_is_said(const OpenedModel& model, const TrainingSettings& settings) {
  if (model.says_what_is_trained || !settings.frozen.empty() || !settings.trained.empty()) return;
  throw ConfigError(
      fmt::format("model: {} does not say which parameters require a gradient: export the module with "
                  "models/rookery_export.py, or say it in train.json: \"trained\": [\"*\"] for all, "
                  "\"frozen\": [\"body.*\"] for all but these",
                  settings.model));
}

}  // namespace

TrainingTask make_task(const TrainingSettings& settings, const std::filesystem::path& node_data,
                       MeasuredKernels* measured) {
  OpenedModel model = open_model(settings.model, node_data);
  check_is_said(model, settings);
  choose_trained(model, settings.frozen, settings.trained);
  TrainingSettings with_ties = settings;
  if (model.module) with_ties.tied.insert(model.module->tied.begin(), model.module->tied.end());
  std::erase_if(with_ties.tied, [&](const auto& tie) { return model.extras.contains(tie.second); });
  const auto dataset = open_data(settings, node_data);
  TrainingTask task = make_task(model.graph, *dataset, with_ties, measured);
  task.model_weights = std::move(model.weights);
  task.model_extras = std::move(model.extras);
  task.module = std::move(model.module);
  task.module_buffers = std::move(model.buffers);
  task.warnings = std::move(model.warnings);
  std::ranges::copy(dataset->warnings(), std::back_inserter(task.warnings));
  std::ranges::copy(doubtful_class_axes(task.graph), std::back_inserter(task.warnings));
  return task;
}

namespace {

void check_tied(const TrainingSettings& settings, const Graph& model) {
  for (const auto& [second, first] : settings.tied) {
    const auto id = model.find(first);
    if (!id ||
        (model.value(*id).kind != ValueKind::kParameter && model.value(*id).kind != ValueKind::kBuffer))
      throw ConfigError(fmt::format("tied/{}: '{}' is not a parameter of {}", second, first, settings.model));
    if (model.find(second))
      throw ConfigError(fmt::format("tied/{}: {} already has a tensor of that name", second, settings.model));
  }
}

// Classes cannot be mixed, though the data set may have targets of floats beside them.
void check_mixup(const TrainingSettings& settings, const Graph& graph) {
  if (std::ranges::find(settings.augment, "mixup", &AugmentStep::name) == settings.augment.end()) return;
  for (const LossOp& loss : losses_of(graph)) {
    if (!loss.hits) continue;
    throw ConfigError(fmt::format(
        "augment: \"mixup\" mixes targets of floats, and \"{}\" holds classes: name `answers` (two "
        "classes) or `probabilities` (option probabilities=1) of an image folder as the loss's target",
        loss.target));
  }
}

}  // namespace

TrainingTask make_task(const Graph& model, const Dataset& dataset, const TrainingSettings& settings,
                       MeasuredKernels* measured) {
  check_tied(settings, model);
  TrainingTask task{.graph = recognize_attention(model), .settings = settings};
  with_context(fmt::format("{} with {}", settings.model, settings.data), [&] {
    add_loss(task.graph, settings.loss, target_types(dataset, settings.loss));
    check_mixup(settings, task.graph);
    freeze_unreached(task.graph);
    const SampleSource fits(dataset, task.graph, settings.loss);
    check_labels(dataset, task.graph);
  });
  task.data = data_sizes(dataset, settings);
  if (task.data.train_samples == 0) {
    throw ConfigError(fmt::format("train_fraction {} of the {} samples of {} leaves none to train on",
                                  settings.train_fraction, dataset.size(), settings.data));
  }
  check_validation(settings, task.data);
  if (settings.micro_batches) choose_kernels(task, measured);
  return task;
}

void choose_kernels(TrainingTask& task, MeasuredKernels* measured) {
  const std::int64_t micro_batch = micro_batch_sizes(task.settings, task.settings.batch_size).front();
  task.kernels = choose_kernels(task.graph, micro_batch, measured);
  if (task.settings.precision == "bf16") task.kernels = in_bf16(task.graph, std::move(task.kernels));
}

void add_profile(TrainingTask& task, const std::filesystem::path& node_data, bool measure,
                 const std::set<int>& threads) {
  const std::filesystem::path file = op_profile_path(node_data);
  if (measure) {
    constexpr std::int64_t kMemoryBytes = std::int64_t{1} << 30;
    const auto dataset = open_data(task.settings, node_data);
    std::set<int> measured;
    for (const int each : threads) measured.insert(std::min(each, usable_processors()));
    LiveLines lines(stderr);
    task.profile =
        measure_profile({.graph = task.graph,
                         .settings = task.settings,
                         .dataset = *dataset,
                         .data = task.data,
                         .kernels = task.kernels,
                         .threads = measured,
                         .memory_bytes = kMemoryBytes,
                         .doing = [&](const std::string& what) { lines.tell("measuring " + what); }});
    lines.clear();
    write_profile(file, *task.profile);
    return;
  }
  task.profile = read_profile(file);
  if (!task.profile) return;
  const std::string problem = profile_problem(*task.profile, task.graph, task.settings, task.kernels);
  if (problem.empty()) return;
  fmt::print(stderr, "clusterize: {} is not used: {}; clusterize --profile measures anew\n", file.string(),
             problem);
  task.profile.reset();
}

}  // namespace rookery
