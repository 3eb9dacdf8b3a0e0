// Replays what PyTorch trained with parameters used again and again, clipped gradients and a rate that
// follows the loss (tests/golden/make_tied_model_trace.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/base/files/json_file.hpp"
#include "models/base/libraries/json.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "tests/support/repository.hpp"
#include "tests/support/tied_model.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/memory_link.hpp"
#include "trainer/progress/plateau.hpp"
#include "trainer/settings/settings.hpp"
#include "trainer/stage_worker.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kTiedBatchSize = 64;

LearningRateSchedule schedule_of(Json settings) {
  settings["name"] = "plateau";
  settings["metric"] = settings.value("mode", "min") == "min" ? "training_loss" : "validation_accuracy";
  return settings_from_json({{"learning_rate_schedule", settings}}, "").learning_rate_schedule;
}

TEST(PlateauTraces, RatesAreThoseOfPyTorch) {
  const Json file = read_json(kGolden / "plateau_traces.json");
  const auto metrics = file.at("metrics").get<std::vector<double>>();
  for (const Json& trace : file.at("traces")) {
    SCOPED_TRACE(trace.at("schedule").dump());
    const LearningRateSchedule schedule = schedule_of(trace.at("schedule"));
    Plateau plateau(file.at("rate").get<double>(), schedule);
    const auto rates = trace.at("rates").get<std::vector<double>>();
    ASSERT_EQ(rates.size(), 60U);
    EXPECT_LT(rates.back(), rates.front());
    for (std::size_t i = 0; i < rates.size(); ++i) {
      plateau.note(schedule.mode == "max" ? -metrics[i] : metrics[i]);
      EXPECT_DOUBLE_EQ(plateau.rate(), rates[i]) << "metric " << i;
    }
  }
}

TEST(Plateau, ALossThatIsNoNumberIsNoBetter) {
  Plateau plateau(1, {.name = "plateau", .patience = 1});
  for (int i = 0; i < 2; ++i) plateau.note(std::nan(""));
  EXPECT_EQ(plateau.rate(), 0.1);
  plateau.note(5);
  plateau.note(6);
  EXPECT_EQ(plateau.rate(), 0.1);
  plateau.note(INFINITY);
  EXPECT_DOUBLE_EQ(plateau.rate(), 0.01);
}

class TiedModelTrace : public testing::TestWithParam<std::string> {
 protected:
  static Stage whole() {
    Graph graph = tied_model({1, 8, 8}, 10, 0);
    add_loss(graph, "cross_entropy");
    return std::move(cut(graph, std::vector<OpId>{0}).front());
  }
  KernelChoice kernels() const {
    KernelChoice choice;
    for (const Op& op : stage_.graph.ops()) choice[op.name] = GetParam();
    return GetParam() == "chosen" ? choose_kernels(stage_.graph, kTiedBatchSize) : choice;
  }
  void fill(const MicroBatch& micro_batch, const std::string& value, TensorView into) const {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < kTiedBatchSize; ++i)
      ids.push_back((micro_batch.step * kTiedBatchSize + i) % digits_->size());
    if (value == kSampleIds) {
      std::ranges::copy(ids, into.as<std::int64_t>().begin());
    } else {
      digits_->gather(value, ids, into);
    }
  }

  const Json trace_ = read_json(kGolden / "tied_model_trace.json");
  const std::unique_ptr<Dataset> digits_ = open_dataset("digits", kNodeData);
  const Stage stage_ = whole();
};

TEST_P(TiedModelTrace, LossesRatesAndWeightsAreThoseOfPyTorch) {
  CompileOptions options{.training_sizes = {kTiedBatchSize}, .kernels = kernels(), .seed = 0};
  options.optimizer = optimizer_defaults("sgd");
  options.optimizer.momentum = trace_.at("momentum").get<double>();
  Executable executable(stage_, options,
                        read_safetensors(kGolden / "tied_model_initial.safetensors").tensors);
  auto links = make_memory_links(1, std::chrono::seconds(1));
  const auto fill_input = [this](const MicroBatch& micro_batch, const std::string& value, TensorView into) {
    fill(micro_batch, value, into);
  };
  StageWorker worker(executable, *links[0], {}, fill_input, trace_.at("clip_gradient_norm").get<double>());
  Plateau plateau(trace_.at("rate").get<double>(), schedule_of(trace_.at("schedule")));

  const auto losses = trace_.at("losses").get<std::vector<double>>();
  const auto steps_per_epoch = trace_.at("steps_per_epoch").get<std::size_t>();
  ASSERT_EQ(losses.size(), 100U);
  double of_epoch = 0;
  for (std::size_t step = 0; step < losses.size(); ++step) {
    ASSERT_DOUBLE_EQ(plateau.rate(), trace_.at("rates").at(step).get<double>()) << "step " << step;
    const double loss =
        worker
            .train(static_cast<std::int64_t>(step), plateau.rate(), std::vector<std::int64_t>{kTiedBatchSize})
            .loss;
    ASSERT_NEAR(loss, losses[step], 1e-4 * losses[step]) << "step " << step;
    of_epoch += loss;
    if ((step + 1) % steps_per_epoch == 0)
      plateau.note(std::exchange(of_epoch, 0) / static_cast<double>(steps_per_epoch));
  }

  const StateDict expected = read_safetensors(kGolden / "tied_model_final.safetensors").tensors;
  const StateDict state = executable.state();
  ASSERT_EQ(state.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_EQ(state.at(name).type(), tensor.type()) << name;
    const auto ours = state.at(name).as<float>();
    const auto theirs = tensor.as<float>();
    for (std::size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], theirs[i], 1e-3) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, TiedModelTrace, testing::Values("chosen", "eigen"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace rookery
