// Replays what PyTorch trained in two processes that average their models
// (tests/golden/make_averaging_traces.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "models/base/files/json_file.hpp"
#include "models/base/libraries/json.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "tests/support/repository.hpp"
#include "tests/support/tied_model.hpp"
#include "trainer/averaging/averagers.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/memory_link.hpp"
#include "trainer/stage_worker.hpp"

namespace rookery {
namespace {

constexpr int kClusters = 2;

class AveragingTraces : public testing::TestWithParam<std::string> {
 protected:
  static Stage whole() {
    Graph graph = tied_model({1, 8, 8}, 10, 0);
    add_loss(graph, "cross_entropy");
    return std::move(cut(graph, std::vector<OpId>{0}).front());
  }

  TrainingSettings settings() const {
    TrainingSettings settings;
    settings.optimizer = optimizer_defaults("sgd");
    settings.optimizer.learning_rate = trace_.at("rate").get<double>();
    settings.optimizer.momentum = trace_.at("momentum").get<double>();
    settings.averaging = {.mode = GetParam(),
                          .every = trace_.at("every").get<std::int64_t>(),
                          .outer_learning_rate = trace_.at("outer_learning_rate").get<double>(),
                          .outer_momentum = trace_.at("outer_momentum").get<double>()};
    settings.epochs = 1;
    return settings;
  }

  // One cluster's losses; its parameters at the end go to `state`.
  std::vector<double> train(int cluster, Link& ring, StateDict& state) const {
    const std::int64_t share = trace_.at("share").get<std::int64_t>();
    const auto steps = std::ssize(trace_.at("losses").at(GetParam()).at(0));
    CompileOptions options{.training_sizes = {share}, .kernels = choose_kernels(stage_.graph, share)};
    options.optimizer = settings().optimizer;
    Executable executable(stage_, options,
                          read_safetensors(kGolden / "tied_model_initial.safetensors").tensors);
    std::vector<std::string> tensors;
    for (const ValueId id : stage_.owned_averaged_values()) tensors.push_back(stage_.graph.value(id).name);
    Rings rings({{.id = 0, .tensors = tensors, .link = &ring}}, cluster, kClusters);
    const auto averager = make_averager({.settings = settings(),
                                         .shares = {.cluster = cluster, .samples = {share, share}},
                                         .train_samples = steps * share * kClusters},
                                        executable, rings);
    averager->begin(0, 0);
    const auto links = make_memory_links(1, std::chrono::seconds(1));
    const auto fill = [&](const MicroBatch& micro_batch, const std::string& value, TensorView into) {
      std::vector<std::int64_t> ids;
      for (std::int64_t i = 0; i < share; ++i)
        ids.push_back((micro_batch.step * share * kClusters + cluster * share + i) % digits_->size());
      if (value == kSampleIds) {
        std::ranges::copy(ids, into.as<std::int64_t>().begin());
      } else {
        digits_->gather(value, ids, into);
      }
    };
    StageWorker worker(executable, *links[0], {}, fill, std::nullopt, {.averager = averager.get()});
    std::vector<double> losses;
    for (std::int64_t step = 0; step < steps; ++step) {
      losses.push_back(
          worker.train(step, settings().optimizer.learning_rate, std::vector<std::int64_t>{share}).loss);
    }
    state = executable.state();
    return losses;
  }

  const Json trace_ = read_json(kGolden / "averaging_traces.json");
  const std::unique_ptr<Dataset> digits_ = open_dataset("digits", kNodeData);
  const Stage stage_ = whole();
};

TEST_P(AveragingTraces, LossesAndWeightsAreThoseOfPyTorch) {
  const auto ring = make_memory_links(kClusters, std::chrono::seconds(60));
  std::vector<std::vector<double>> losses(kClusters);
  std::vector<StateDict> states(kClusters);
  {
    std::vector<std::jthread> threads;
    for (int cluster = 0; cluster < kClusters; ++cluster) {
      threads.emplace_back([&, cluster, at = static_cast<std::size_t>(cluster)] {
        losses[at] = train(cluster, *ring[at], states[at]);
      });
    }
  }
  for (std::size_t cluster = 0; cluster < kClusters; ++cluster) {
    const auto expected = trace_.at("losses").at(GetParam()).at(cluster).get<std::vector<double>>();
    ASSERT_EQ(losses[cluster].size(), 40U);
    for (std::size_t step = 0; step < expected.size(); ++step)
      ASSERT_NEAR(losses[cluster][step], expected[step], 1e-4 * expected[step]) << "step " << step;
  }
  const StateDict expected = read_safetensors(kGolden / ("averaging_" + GetParam() + ".safetensors")).tensors;
  ASSERT_EQ(states[0].size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    const auto ours = states[0].at(name).as<float>();
    const auto theirs = tensor.as<float>();
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], theirs[i], 1e-4) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, AveragingTraces, testing::Values("parameters", "diloco"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace rookery
