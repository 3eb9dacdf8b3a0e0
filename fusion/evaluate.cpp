#include "fusion/evaluate.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "fusion/inference/outputs.hpp"
#include "fusion/inference/whole_model.hpp"
#include "fusion/trained_model.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/parse.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "models/zoo/open_model.hpp"
#include "models/zoo/zoo.hpp"
#include "trainer/feed/open_data.hpp"
#include "trainer/feed/sample_source.hpp"
#include "trainer/feed/split.hpp"
#include "trainer/memory_link.hpp"
#include "trainer/stage_worker.hpp"

namespace rookery {
namespace {

template <typename Number>
Number number_of(const std::string& text, const std::string& key) {
  const std::optional<Number> number = number_from<Number>(text);
  if (!number) throw DataError(fmt::format("its metadata has the {} '{}', which is no number", key, text));
  return *number;
}

// Where the settings of an evaluation come from: what was asked for, else the state's own record,
// else train.json.
class Sources {
 public:
  Sources(const EvaluationRequest& request, const Metadata& metadata)
      : metadata_(metadata), train_json_(request.node_data / "train.json") {
    if (std::filesystem::exists(train_json_)) from_file_ = read_settings(train_json_);
  }

  // As the training had it; a state that Rookery has not trained says nothing of it.
  std::vector<AugmentStep> augment() const {
    if (const auto found = metadata_.find("augment"); found != metadata_.end())
      return augment_from_text(found->second);
    return metadata_.contains("plan_id") || !from_file_ ? std::vector<AugmentStep>() : from_file_->augment;
  }

  template <typename T>
  T choose(const std::optional<T>& asked, const std::string& key, T TrainingSettings::*member) const {
    if (asked) return *asked;
    if (const auto found = metadata_.find(key); found != metadata_.end()) {
      if constexpr (std::is_same_v<T, std::string>) {
        return found->second;
      } else if constexpr (std::is_same_v<T, LossSettings>) {
        return loss_from_text(found->second);
      } else {
        return number_of<T>(found->second, key);
      }
    }
    if (from_file_) return (*from_file_).*member;
    throw ConfigError(
        fmt::format("its metadata has no {}, and there is no {} to take it from", key, train_json_.string()));
  }

 private:
  const Metadata& metadata_;  // outlives the Sources: both live in evaluate()
  std::filesystem::path train_json_;
  std::optional<TrainingSettings> from_file_;
};

TrainingSettings settings_of(const EvaluationRequest& request, const Metadata& metadata) {
  const Sources sources(request, metadata);
  TrainingSettings settings;
  settings.model = sources.choose(request.model, "model", &TrainingSettings::model);
  settings.data = sources.choose(request.data, "data", &TrainingSettings::data);
  settings.seed = sources.choose(request.seed, "seed", &TrainingSettings::seed);
  settings.loss = sources.choose<LossSettings>({}, "loss", &TrainingSettings::loss);
  settings.split = sources.choose<std::string>({}, "split", &TrainingSettings::split);
  settings.train_fraction = sources.choose<double>({}, "train_fraction", &TrainingSettings::train_fraction);
  settings.augment = sources.augment();
  settings_from_json(to_json(settings), "settings");  // ranges and known names
  return settings;
}

std::vector<std::int64_t> ids_of(const Dataset& dataset, const TrainingSettings& settings, Subset subset) {
  if (subset == Subset::kAll) {
    std::vector<std::int64_t> ids(dataset.size());
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }
  Split split = split_dataset(dataset, settings);
  return subset == Subset::kTrain ? std::move(split.train) : std::move(split.validation);
}

std::string name_of(const LossSettings& loss) {
  std::vector<std::string> terms;
  for (const LossTerm& term : loss.terms)
    terms.push_back(term.weight == 1 ? term.name : fmt::format("{:g} {}", term.weight, term.name));
  return fmt::format("{}", fmt::join(terms, " + "));
}

}  // namespace

const LossResult* Evaluation::classifier() const {
  const auto found = std::ranges::find_if(losses, [](const auto& one) { return one.second.positions > 0; });
  return found == losses.end() ? nullptr : &found->second;
}

Subset subset_named(const std::string& name) {
  if (name == "validation") return Subset::kValidation;
  if (name == "train") return Subset::kTrain;
  if (name == "all") return Subset::kAll;
  throw UsageError(fmt::format("--split {}: it is validation, train or all", name));
}

Evaluation evaluate(Graph model, const LossSettings& loss, const StateDict& state, const Dataset& dataset,
                    std::span<const std::int64_t> ids, std::int64_t batch) {
  if (ids.empty()) throw ConfigError("there are no samples in this split of the data set");
  const Graph without_loss = model;
  add_loss(model, loss, target_types(dataset, loss));
  SampleSource source(dataset, model, loss);
  check_labels(dataset, model);
  WholeModel whole(model, state, std::ssize(ids), batch);
  // All samples are one batch, of which the mean is taken; the model's batches are its micro-batches.
  source.set_batch(ids);
  const auto fill = [&](const MicroBatch& micro_batch, const std::string& value, TensorView into) {
    const auto first = static_cast<std::size_t>(micro_batch.index * whole.batches.front());
    source.fill(value, ids.subspan(first, static_cast<std::size_t>(micro_batch.size)), into);
  };
  const auto links = make_memory_links(1, std::chrono::seconds(1));
  StageWorker worker(whole.executable, *links[0], {}, fill);
  const BatchResult measured = worker.validate(0, whole.batches);
  Evaluation result{.loss_name = name_of(loss), .loss = measured.loss, .samples = measured.samples};
  const std::vector<LossOp> losses = losses_of(model);
  for (std::size_t i = 0; i < losses.size(); ++i)
    result.losses.emplace_back(losses[i].value, measured.losses[i]);
  if (const LossTerm& term = loss.terms.front(); dataset.is_continued() && term.ignore_index) {
    result.decoded =
        decode_greedily(without_loss, state, dataset, term.target, *term.ignore_index, ids, batch);
  }
  return result;
}

Evaluation evaluate(const EvaluationRequest& request) {
  if (request.batch < 1) throw UsageError(fmt::format("--batch {}: 1 or more", request.batch));
  TrainedModel trained = read_trained_model(request.state, request.node_data);
  return with_context(request.state.string(), [&] {
    // A file that is a model needs no name for it.
    if (trained.graph) trained.metadata.emplace("model", request.state.filename().string());
    const TrainingSettings settings = settings_of(request, trained.metadata);
    const auto dataset = open_data(settings, request.node_data);
    const std::vector<std::int64_t> ids = ids_of(*dataset, settings, request.subset);
    OpenedModel opened;
    if (!trained.graph || request.model) opened = open_model(settings.model, request.node_data);
    Graph model = trained.graph && !request.model ? std::move(*trained.graph) : std::move(opened.graph);
    remove_reference_extras(settings.model, trained.state);
    remove_extras(opened.module, opened.extras, trained.state);
    for (const auto& [second, first] : second_names(model, trained.state)) trained.state.erase(second);
    if (!request.outputs.empty() && !ids.empty()) {
      write_safetensors(request.outputs,
                        model_outputs(model, trained.state, *dataset, settings.loss, ids, request.batch));
    }
    std::optional<Confusion> confusion;
    if (request.per_class && !ids.empty()) {
      confusion = confusion_of(model, trained.state, *dataset, settings.loss, ids, request.batch);
      if (!confusion)
        throw ConfigError(fmt::format("--per-class: the loss {} does not tell a class for each sample",
                                      name_of(settings.loss)));
    }
    Evaluation result =
        evaluate(std::move(model), settings.loss, trained.state, *dataset, ids, request.batch);
    result.model = settings.model;
    result.data = settings.data;
    result.confusion = std::move(confusion);
    if (trained.is_checkpoint)
      result.checkpoint_step = number_of<std::int64_t>(trained.metadata.at("step"), "step");
    return result;
  });
}

}  // namespace rookery
