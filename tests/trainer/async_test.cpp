// The asynchronous schedule against its definition: one process that keeps every version of the weights, and
// computes each micro-batch's gradients with what those that each stage then has let it expect.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/digits.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/tied_model.hpp"
#include "trainer/feed/batch_feed.hpp"
#include "trainer/feed/split.hpp"

namespace rookery {
namespace {

TrainingSettings async_run(std::optional<int> max_staleness = std::nullopt) {
  TrainingSettings settings;
  settings.epochs = 2;
  settings.loss = "cross_entropy";
  settings.validate_every = 0;
  settings.schedule = {.name = "async", .max_staleness = max_staleness};
  return settings;
}

// Weights as they were after each update, and what belongs to them.
struct History {
  std::vector<std::vector<float>> versions;
  std::vector<std::vector<float>> optimizer_state;
  // Of the stage that owns the parameter.
  bool is_by_batch = false;  // does a batch have one version?
  int staleness = 0;
  int ahead = 0;  // micro-batches in flight besides one
  double mean_staleness = 0;
  std::shared_ptr<const Optimizer> optimizer;
};

class Definition {
 public:
  Definition(Graph model, const std::vector<OpId>& begins, const TrainingSettings& settings)
      : settings_(settings) {
    add_loss(model, settings.loss, target_types(digits(), settings.loss));
    const Split split = split_dataset(digits().size(), settings);
    data_ = {std::ssize(split.train), std::ssize(split.validation)};
    kernels_ = choose_kernels(model, settings.batch_size);
    whole_.push_back(std::move(cut(model, std::vector<OpId>{0}).front()));
    buffers_ = initial_state(model, settings.seed);
    const std::vector<Stage> stages = cut(model, begins);
    const auto micro_batches = static_cast<int>(
        micro_batch_sizes(settings, std::min(settings.batch_size, data_.train_samples)).size());
    for (const Stage& stage : stages) {
      owned_.emplace_back();
      for (const ValueId id : stage.owned_parameters()) {
        const std::string& name = stage.graph.value(id).name;
        owned_.back().push_back(name);
        const std::vector<float> first = padded(buffers_.at(name).as<float>());
        History& history = weights_[name];
        history.versions.push_back(first);
        history.is_by_batch = !stage.shared.empty();
        history.staleness = staleness(settings.schedule, stage.index, stage.count, micro_batches);
        history.ahead = in_flight(settings.schedule, stage.index, stage.count, micro_batches) - 1;
        history.mean_staleness = static_cast<double>(history.ahead) / micro_batches;
        history.optimizer = optimizer_of(history.mean_staleness);
        history.optimizer_state.assign(history.optimizer->state_names().size(),
                                       std::vector<float>(first.size(), 0));
        buffers_.erase(name);
      }
    }
  }

  PipelineResult run() {
    BatchFeed feed(digits(), settings_, data_, whole_.front());
    PipelineResult result;
    std::int64_t step = 0;
    for (int epoch = 0; epoch < settings_.epochs; ++epoch) {
      feed.start_epoch(epoch, {});
      const std::int64_t first_step = step;
      for (std::int64_t first = 0; first < data_.train_samples; first += settings_.batch_size, ++step) {
        const std::int64_t size = std::min(settings_.batch_size, data_.train_samples - first);
        feed.set_batch({first, size}, {first, size});
        result.losses.push_back(train(feed, first_step, step, size));
      }
    }
    result.state = state_of(step, step, 0, 1);
    return result;
  }

 private:
  // The mean of Adam is over three times as many updates where gradients are an update old, and five times
  // where they are older.
  std::shared_ptr<const Optimizer> optimizer_of(double mean_staleness) const {
    OptimizerSettings optimizer = settings_.optimizer;
    optimizer.beta1 = 1 - (1 - optimizer.beta1) / (1 + 2 * std::min(2.0, mean_staleness));
    return make_optimizer(optimizer);
  }

  // With the weights that each stage uses in micro-batch `number` of batch `step`, or where it shares any, in
  // all of the batch: those that it has when that begins, and 2 m + 2 min(m, 1) changes more like their last
  // one in this run, where m come before the own one, in the mean of all micro-batches.
  StateDict state_of(std::int64_t first_step, std::int64_t step, int number, int micro_batches) const {
    StateDict state;
    for (const auto& [name, tensor] : buffers_) state.emplace(name, tensor.clone());
    for (const auto& [name, history] : weights_) {
      const int old = history.is_by_batch
                          ? history.staleness
                          : (std::max(0, history.ahead - number) + micro_batches - 1) / micro_batches;
      const double mean = history.is_by_batch ? history.staleness : history.mean_staleness;
      const auto begins_with = static_cast<std::size_t>(std::max(first_step, step - old));
      const Graph& graph = whole_.front().graph;
      Tensor tensor(graph.value(graph.at(name)).type);
      const std::span<float> into = tensor.as<float>();
      std::copy_n(history.versions.at(begins_with).begin(), into.size(), into.begin());
      if (step - first_step > old) {
        const std::vector<float>& before = history.versions.at(begins_with - 1);
        std::vector<float> predicted;
        for (std::size_t i = 0; i < into.size(); ++i) predicted.push_back(into[i] - before[i]);
        host_arithmetic().scale_and_add(predicted.data(),
                                        static_cast<float>(2 * mean + 2 * std::min(mean, 1.0)), into.data(),
                                        into.size());
        std::ranges::copy(predicted, into.begin());
      }
      state.emplace(name, std::move(tensor));
    }
    return state;
  }

  double train(const BatchFeed& feed, std::int64_t first_step, std::int64_t step, std::int64_t size) {
    TrainingSettings settings = settings_;
    settings.schedule.planned.clear();
    CompileOptions options = compile_options(settings, data_, 0, 1, kernels_);
    options.updates_in_backward = false;  // the gradients are wanted
    const std::vector<std::int64_t> parts = micro_batch_sizes(settings_, size);
    Executable executable(whole_.front(), options, state_of(first_step, step, 0, 1));
    const std::map<std::string, TensorView> parameters = executable.training_state();
    double loss = 0;
    MicroBatch batch{.step = step};
    for (const std::int64_t part : parts) {
      for (const auto& [name, tensor] :
           state_of(first_step, step, batch.index, static_cast<int>(parts.size()))) {
        if (weights_.contains(name)) copy(tensor.view(), parameters.at(name));
      }
      const double share = static_cast<double>(part) / static_cast<double>(size);
      batch.size = part;
      batch.loss_weight = static_cast<float>(share);
      loss += share * run(executable, feed, batch);
      ++batch.index;
    }
    executable.finish_gradients();
    for (const std::vector<std::string>& names : owned_) {
      const double factor = clipping_factor(executable, names);
      for (const std::string& name : names)
        update(weights_.at(name), step, executable.gradient(name).as<float>(), static_cast<float>(factor));
    }
    for (auto& [name, tensor] : executable.state()) {
      if (buffers_.contains(name)) buffers_[name] = tensor.clone();
    }
    return loss;
  }

  // Forward and backward; the loss.
  double run(Executable& executable, const BatchFeed& feed, const MicroBatch& batch) const {
    for (std::size_t i = 0; i < whole_.front().inputs.size(); ++i)
      feed.fill(batch, whole_.front().inputs[i].value, executable.input(i, batch));
    executable.forward(batch);
    double loss = 0;
    for (std::size_t i = 0; i < whole_.front().outputs.size(); ++i) {
      if (whole_.front().outputs[i].value == losses_of(whole_.front().graph).front().value)
        loss = executable.output(i, batch).as<float>().front();
    }
    executable.backward_inputs(batch);
    executable.backward_weights(batch);
    return loss;
  }

  // Of one stage's gradients, by their norm alone.
  double clipping_factor(const Executable& executable, const std::vector<std::string>& names) const {
    if (!settings_.clip_gradient_norm) return 1;
    ExactSum squares;
    for (const std::string& name : names) {
      const std::span<const float> gradient = executable.gradient(name).as<float>();
      squares.add(host_arithmetic().sum_of_squares(gradient.data(), gradient.size()));
    }
    return std::min(1.0, *settings_.clip_gradient_norm / (std::sqrt(squares.value()) + 1e-6));
  }

  // As an arena is.
  static std::vector<float> padded(std::span<const float> values) {
    std::vector<float> arena(values.begin(), values.end());
    arena.resize(align_up(values.size_bytes()) / sizeof(float), 0);
    return arena;
  }

  void update(History& history, std::int64_t step, std::span<const float> gradient, float factor) const {
    std::vector<float> next = history.versions.back();
    std::vector<std::span<float>> state(history.optimizer_state.begin(), history.optimizer_state.end());
    std::vector<float> gradients = padded(gradient);
    if (factor != 1) host_arithmetic().scale(gradients.data(), factor, gradient.size());
    const std::vector<ParameterExtent> extents{{0, gradient.size()}};
    history.optimizer->update(
        step, settings_.optimizer.learning_rate, host_arithmetic(),
        {.parameters = next, .gradients = gradients, .state = state, .extents = extents});
    history.versions.push_back(std::move(next));
  }

  const TrainingSettings settings_;
  DataSizes data_;
  KernelChoice kernels_;
  std::vector<Stage> whole_;  // one
  StateDict buffers_;
  std::map<std::string, History> weights_;
  std::vector<std::vector<std::string>> owned_;  // by stage
};

struct AsyncCase {
  std::string name;
  std::function<Graph()> model;
  std::size_t stages;
  std::optional<int> max_staleness;
  std::vector<int> planned = {};  // in flight, by stage
  int micro_batches = 1;
  std::optional<double> clip_gradient_norm = {};
};
void PrintTo(const AsyncCase& what, std::ostream* out) {
  *out << what.name;
}

class AsyncRun : public testing::TestWithParam<AsyncCase> {};

TEST_P(AsyncRun, IsWhatItsDefinitionSays) {
  const AsyncCase& of = GetParam();
  TrainingSettings settings = async_run(of.max_staleness);
  settings.schedule.planned = of.planned;
  settings.micro_batches = of.micro_batches;
  settings.clip_gradient_norm = of.clip_gradient_norm;
  const Graph model = of.model();
  const std::vector<OpId> begins = even_cuts(model, settings.loss, digits(), of.stages);
  const PipelineResult expected = Definition(model, begins, settings).run();
  const PipelineResult found = run_pipeline(model, begins, settings, digits());
  EXPECT_EQ(found.losses.size(), 34U);
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_TRUE(same_state(found.state, expected.state));
  EXPECT_EQ(found.sample_digests.front(), found.sample_digests.back());
}

Graph tied() {
  return tied_model({1, 8, 8}, 10);
}

INSTANTIATE_TEST_SUITE_P(
    Async, AsyncRun,
    testing::Values(AsyncCase{"CnnNetOn2Stages", cnn_net, 2, std::nullopt},
                    AsyncCase{"CnnNetOn3Stages", cnn_net, 3, std::nullopt},
                    AsyncCase{"CnnNetOn5Stages", cnn_net, 5, std::nullopt},
                    AsyncCase{"CnnNetOn5StagesWithStaleness2", cnn_net, 5, 2},
                    AsyncCase{"CnnNetOn3StagesFurtherAhead", cnn_net, 3, 6, {6, 4, 1}},
                    AsyncCase{"TiedOn3StagesFurtherAhead", tied, 3, 6, {7, 3, 1}},
                    AsyncCase{"TiedOn2Stages", tied, 2, std::nullopt},
                    AsyncCase{"TiedOn3Stages", tied, 3, std::nullopt},
                    AsyncCase{"TiedOn5StagesWithStaleness3", tied, 5, 3},
                    AsyncCase{"CnnNetOn5StagesBy5", cnn_net, 5, std::nullopt, {}, 5},
                    AsyncCase{"CnnNetOn3StagesBy4FurtherAhead", cnn_net, 3, 3, {9, 4, 1}, 4},
                    AsyncCase{"TiedOn4StagesBy2", tied, 4, std::nullopt, {}, 2},
                    AsyncCase{"TiedOn3StagesBy3FurtherAhead", tied, 3, 4, {8, 3, 1}, 3},
                    AsyncCase{"CnnNetOn3StagesClipped", cnn_net, 3, std::nullopt, {}, 1, 0.5},
                    AsyncCase{"TiedOn3StagesBy2Clipped", tied, 3, std::nullopt, {}, 2, 0.5}),
    [](const auto& instance) { return instance.param.name; });

TEST(Async, WithoutStalenessIsTheSynchronousRun) {
  TrainingSettings settings = async_run(0);
  TrainingSettings synchronous = settings;
  synchronous.schedule = {};
  for (const auto& model : {cnn_net(), tied()}) {
    const PipelineResult expected = run_pipeline(model, std::vector<OpId>{0}, synchronous, digits());
    for (const std::size_t stages : {1, 2, 4}) {
      const std::vector<OpId> begins = even_cuts(model, settings.loss, digits(), stages);
      const PipelineResult found = run_pipeline(model, begins, settings, digits());
      EXPECT_EQ(found.losses, expected.losses);
      EXPECT_TRUE(same_state(found.state, expected.state)) << stages << " stages";
    }
    const PipelineResult stale =
        run_pipeline(model, even_cuts(model, settings.loss, digits(), 2), async_run(), digits());
    EXPECT_NE(stale.losses, expected.losses);
  }
}

// Of each batch but the first ones of an epoch, which find less before them.
TEST(Async, StalenessIsCounted) {
  const TrainingSettings settings = async_run();
  const Graph model = cnn_net();
  const PipelineResult result =
      run_pipeline(model, even_cuts(model, settings.loss, digits(), 3), settings, digits());
  const auto batches = std::ssize(result.losses) / settings.epochs;
  for (int stage = 0; stage < 3; ++stage) {
    const int full = staleness(settings.schedule, stage, 3, 1);
    EXPECT_EQ(full, 2 - stage);
    std::int64_t of_epoch = 0;
    for (std::int64_t batch = 0; batch < batches; ++batch) of_epoch += std::min<std::int64_t>(batch, full);
    EXPECT_EQ(result.times[stage].staleness, settings.epochs * of_epoch);
    EXPECT_EQ(result.times[stage].updates, std::ssize(result.losses));
  }
}

// Of a batch's micro-batches only those are old that a stage runs ahead of the update before.
TEST(Async, StalenessIsThatOfMicroBatches) {
  TrainingSettings settings = async_run();
  settings.micro_batches = 4;
  const Graph model = cnn_net();
  const PipelineResult result =
      run_pipeline(model, even_cuts(model, settings.loss, digits(), 3), settings, digits());
  const auto batches = std::ssize(result.losses) / settings.epochs;
  for (int stage = 0; stage < 3; ++stage) {
    const int ahead = 2 - stage;
    EXPECT_DOUBLE_EQ(mean_staleness(settings.schedule, stage, 3, 4), ahead / 4.0);
    EXPECT_EQ(result.times[stage].micro_batches, 4 * std::ssize(result.losses));
    EXPECT_EQ(result.times[stage].staleness, settings.epochs * (batches - 1) * ahead);
  }
}

TEST(Async, LearnsTheDigits) {
  TrainingSettings settings = async_run();
  settings.epochs = 12;
  settings.validate_every = 1;
  const Graph model = cnn_net();
  const PipelineResult result =
      run_pipeline(model, even_cuts(model, settings.loss, digits(), 3), settings, digits());
  ASSERT_EQ(result.accuracies.size(), 12U);
  EXPECT_GT(result.accuracies.back(), 90);
}

TEST(Async, RecomputesWithTheWeightsOfTheForward) {
  TrainingSettings settings = async_run();
  const Graph model = cnn_net();
  const std::vector<OpId> begins = even_cuts(model, settings.loss, digits(), 3);
  const PipelineResult kept = run_pipeline(model, begins, settings, digits());
  settings.recompute = "full";
  const PipelineResult again = run_pipeline(model, begins, settings, digits());
  EXPECT_EQ(again.losses, kept.losses);
  EXPECT_TRUE(same_state(again.state, kept.state));
}

}  // namespace
}  // namespace rookery
