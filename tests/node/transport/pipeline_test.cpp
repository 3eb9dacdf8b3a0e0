// Training over the network computes the same bits as training in one process.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "models/zoo/zoo.hpp"
#include "tests/node/transport/loopback.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/repository.hpp"
#include "tests/support/tied_model.hpp"

namespace rookery {
namespace {

std::vector<std::unique_ptr<Link>> make_leaving_links(int stages) {
  std::vector<std::unique_ptr<Link>> links;
  for (auto& link : make_loopback(stages, [](LoopbackOptions& options) {
         options.peer_timeout = options.deadline = std::chrono::seconds(60);
       })) {
    links.push_back(std::make_unique<LeavingLink<LoopbackLink>>(std::move(link)));
  }
  return links;
}

void expect_same_over_sockets(const Graph& model, const TrainingSettings& settings, const Dataset& data,
                              std::size_t stages) {
  const std::vector<OpId> begins = even_cuts(model, settings.loss, data, stages);
  const PipelineResult in_memory = run_pipeline(model, begins, settings, data);
  const PipelineResult over_sockets =
      run_pipeline(model, begins, settings, data, {.output = {}, .make_links = make_leaving_links});
  EXPECT_EQ(over_sockets.losses, in_memory.losses);
  EXPECT_EQ(over_sockets.accuracies, in_memory.accuracies);
  EXPECT_EQ(over_sockets.losses.size(), 17U * static_cast<std::size_t>(settings.epochs));
  EXPECT_TRUE(same_state(over_sockets.state, in_memory.state)) << stages << " stages";
}

TEST(Pipeline, TheNetworkComputesTheBitsOfOneProcess) {
  const auto digits = open_dataset("digits", kNodeData);
  TrainingSettings settings;
  settings.epochs = 2;
  settings.micro_batches = 3;
  for (const std::size_t stages : {2U, 3U, 5U})
    expect_same_over_sockets(cnn_net(), settings, *digits, stages);
}

// Stages run ahead of each other, and values of shared parameters travel with the batches.
TEST(Pipeline, TheNetworkMakesNoDifferenceToAsynchronousTraining) {
  const auto digits = open_dataset("digits", kNodeData);
  TrainingSettings settings;
  settings.loss = "cross_entropy";
  settings.epochs = 3;
  settings.schedule.name = "async";
  for (const std::size_t stages : {2U, 5U})
    expect_same_over_sockets(tied_model({1, 8, 8}, 10), settings, *digits, stages);
}

// Shared parameters, clipping and a rate that follows the validation loss: all that is exchanged.
TEST(Pipeline, WhatStepsAndEpochsEndWithComesOverTheNetwork) {
  const auto digits = open_dataset("digits", kNodeData);
  const Graph model = tied_model({1, 8, 8}, 10);
  TrainingSettings settings;
  settings.loss = "cross_entropy";
  settings.epochs = 4;
  settings.micro_batches = 4;
  settings.optimizer.learning_rate = 0.02;
  settings.clip_gradient_norm = 0.5;
  settings.learning_rate_schedule = {.name = "plateau", .patience = 0, .threshold = 0.5};
  Graph with_loss = model;
  add_loss(with_loss, settings.loss);
  const std::vector<OpId> positions = cut_positions(with_loss);
  const PipelineResult whole = run_pipeline(model, std::vector<OpId>{0}, settings, *digits);
  for (const std::size_t stages : {2U, 3U, 5U}) {
    std::vector<OpId> begins{0};
    for (std::size_t k = 1; k < stages; ++k) begins.push_back(positions[k * positions.size() / stages]);
    const PipelineResult over_sockets =
        run_pipeline(model, begins, settings, *digits, {.output = {}, .make_links = make_leaving_links});
    EXPECT_EQ(over_sockets.losses, whole.losses);
    EXPECT_EQ(over_sockets.accuracies, whole.accuracies);
    EXPECT_TRUE(same_state(over_sockets.state, whole.state)) << stages << " stages";
  }
}

// Steps that are clipped after their update, and forwards that are run again.
TEST(Pipeline, UpdatesAreTakenBackOverTheNetwork) {
  const auto digits = open_dataset("digits", kNodeData);
  TrainingSettings settings;
  settings.loss = "cross_entropy";
  settings.epochs = 4;
  settings.micro_batches = 4;
  settings.schedule.name = "zb";
  settings.optimizer.learning_rate = 0.02;
  settings.clip_gradient_norm = 1.5;
  const PipelineResult whole = run_pipeline(cnn_net(), std::vector<OpId>{0}, settings, *digits);
  settings.schedule.updates_ahead = true;
  std::vector<WorkTrace> traces(4);
  const auto trace = [&](const Stage& stage, Executable&, Link&, TrainerOptions options) {
    options.trace = &traces[stage.index];
    return options;
  };
  const PipelineResult over_sockets =
      run_pipeline(cnn_net(), even_cuts(cnn_net(), settings.loss, *digits, 4), settings, *digits,
                   {.make_links = make_leaving_links, .make_trainer_options = trace});
  EXPECT_EQ(over_sockets.losses, whole.losses);
  EXPECT_TRUE(same_state(over_sockets.state, whole.state));
  const auto count = [&](ActionKind kind) {
    return std::ranges::count_if(traces.front().actions(),
                                 [&](const TracedAction& traced) { return traced.action.kind == kind; });
  };
  EXPECT_GT(count(ActionKind::kForward), count(ActionKind::kBackwardInputs)) << "no update was taken back";
}

}  // namespace
}  // namespace rookery
