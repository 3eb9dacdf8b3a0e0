// A run that goes on from a snapshot between two of its steps, in whatever cut, is the undisturbed run bit
// for bit.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/digits.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/tied_model.hpp"

namespace rookery {
namespace {

// 4 steps an epoch, the last of them of fewer samples, and a validation after each.
TrainingSettings short_run() {
  TrainingSettings settings;
  settings.epochs = 3;
  settings.batch_size = 300;
  return settings;
}

struct RunCase {
  std::string name;
  TrainingSettings settings;
  Graph model = cnn_net();  // which has dropout
};
void PrintTo(const RunCase& what, std::ostream* out) {
  *out << what.name;
}

RunCase& add(std::vector<RunCase>& cases, const std::string& name) {
  cases.push_back({name, short_run()});
  return cases.back();
}

std::vector<RunCase> cases() {
  std::vector<RunCase> all{{"Adam", short_run()}};
  RunCase& momentum = add(all, "SgdWithMomentum");
  momentum.settings.optimizer = optimizer_defaults("sgd");
  momentum.settings.optimizer.momentum = 0.9;
  RunCase& lamb = add(all, "Lamb");
  lamb.settings.optimizer = optimizer_defaults("lamb");
  RunCase& plateau = add(all, "Plateau");
  plateau.settings.learning_rate_schedule.name = "plateau";
  plateau.settings.learning_rate_schedule.metric = "training_loss";
  plateau.settings.learning_rate_schedule.patience = 0;
  plateau.settings.learning_rate_schedule.threshold = 0.5;
  RunCase& cosine = add(all, "CosineWithFourMicroBatches");
  cosine.settings.learning_rate_schedule.name = "cosine";
  cosine.settings.micro_batches = 4;
  cosine.settings.clip_gradient_norm = 0.5;
  RunCase& tied = add(all, "SharedParameters");
  tied.model = tied_model({1, 8, 8}, 10);
  tied.settings.micro_batches = 4;
  return all;
}

PipelineResult run(const RunCase& run_case, std::size_t stages, const PipelineOptions& options) {
  return run_pipeline(run_case.model, even_cuts(run_case.model, run_case.settings.loss, digits(), stages),
                      run_case.settings, digits(), options);
}

class GoingOn : public testing::TestWithParam<RunCase> {};

TEST_P(GoingOn, FromAnyStepInAnyCutIsTheUndisturbedRun) {
  std::map<std::int64_t, Snapshot> snapshots;
  const PipelineResult whole = run(GetParam(), 3, {.snapshots = &snapshots});
  ASSERT_EQ(whole.losses.size(), 12U);
  ASSERT_EQ(snapshots.size(), 12U);  // none before the first step, one after the last
  std::size_t stages = 0;
  for (const auto& [step, snapshot] : snapshots) {
    const std::size_t cut = 1 + stages++ % 4;
    SCOPED_TRACE(fmt::format("from step {} in {} stages", step, cut));
    const PipelineResult rest = run(GetParam(), cut, {.from = &snapshot});
    EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + step, whole.losses.end()));
    EXPECT_EQ(rest.accuracies, std::vector<double>(whole.accuracies.begin() + snapshot.state.validations,
                                                   whole.accuracies.end()));
    EXPECT_TRUE(same_state(rest.state, whole.state));
    EXPECT_EQ(rest.sample_digests.back(), whole.sample_digests.back());
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, GoingOn, testing::ValuesIn(cases()),
                         [](const auto& run_case) { return run_case.param.name; });

TEST(GoingOn, AsyncGoesOnFromAnEpochsStart) {
  RunCase async{"", short_run()};
  async.settings.schedule = {.name = "async"};
  async.settings.micro_batches = 6;  // an epoch's last batch has fewer, and is trained apart
  std::map<std::int64_t, Snapshot> snapshots;
  const PipelineResult whole = run(async, 3, {.snapshots = &snapshots});
  ASSERT_EQ(snapshots.size(), 3U);
  for (const auto& [step, snapshot] : snapshots) {
    EXPECT_EQ(step % 4, 0);
    const PipelineResult rest = run(async, 3, {.from = &snapshot});
    EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + step, whole.losses.end()));
    EXPECT_TRUE(same_state(rest.state, whole.state));
  }
}

// A run of three epochs that is given more is the run that had them from the beginning.
void expect_more_epochs(const RunCase& first, int epochs) {
  RunCase longer = first;
  longer.settings.epochs = epochs;
  std::map<std::int64_t, Snapshot> snapshots;
  run(first, 2, {.snapshots = &snapshots});
  const PipelineResult rest = run(longer, 2, {.from = &snapshots.at(12)});
  const PipelineResult whole = run(longer, 1, {});
  EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + 12, whole.losses.end()));
  EXPECT_TRUE(same_state(rest.state, whole.state));
}

TEST(GoingOn, MoreEpochsAreTrained) {
  expect_more_epochs({"", short_run()}, 5);
}

// The last epoch's metric counts for those that follow.
TEST(GoingOn, MoreEpochsFollowThePlateau) {
  RunCase plateau{"", short_run()};
  plateau.settings.learning_rate_schedule.name = "plateau";
  plateau.settings.learning_rate_schedule.metric = "training_loss";
  plateau.settings.learning_rate_schedule.patience = 0;
  plateau.settings.learning_rate_schedule.threshold = 0.9;
  expect_more_epochs(plateau, 6);
}

TEST(GoingOn, AnotherLearningRateCounts) {
  RunCase run_case{"", short_run()};
  std::map<std::int64_t, Snapshot> snapshots;
  const PipelineResult whole = run(run_case, 2, {.snapshots = &snapshots});
  run_case.settings.optimizer.learning_rate *= 0.5;
  const PipelineResult rest = run(run_case, 2, {.from = &snapshots.at(6)});
  EXPECT_EQ(rest.losses.at(0), whole.losses.at(6)) << "of the weights as they were";
  EXPECT_NE(rest.losses.at(1), whole.losses.at(7));
}

TEST(GoingOn, WithinAnEpochTheBatchesStay) {
  RunCase run_case{"", short_run()};
  std::map<std::int64_t, Snapshot> snapshots;
  run(run_case, 1, {.snapshots = &snapshots});
  run_case.settings.batch_size = 256;
  EXPECT_THROW(run(run_case, 1, {.from = &snapshots.at(5)}), ConfigError);
  EXPECT_NO_THROW(run(run_case, 1, {.from = &snapshots.at(4)}));
  run_case.settings = short_run();
  run_case.settings.schedule = {.name = "async"};
  EXPECT_THROW(run(run_case, 1, {.from = &snapshots.at(5)}), ConfigError);
}

class RatesOfSteps : public RunLog {
 public:
  void after_update(const Progress& progress, const BatchResult& /*batch*/) override {
    rates.push_back(progress.learning_rate);
  }
  std::vector<double> rates;
};

std::vector<double> rates_of(const RunCase& run_case, PipelineOptions options) {
  RatesOfSteps kept;
  options.make_trainer_options = [&](const Stage& stage, Executable&, Link&, TrainerOptions made) {
    if (stage.is_leaf()) made.logs.push_back(&kept);
    return made;
  };
  run(run_case, 2, options);
  return kept.rates;
}

// Four steps an epoch until there, then two, or eleven: learning rates go on from the place in the run.
TEST(GoingOn, WithOtherBatchesAllEpochsAreTrainedToTheirEnd) {
  RunCase run_case{"", short_run()};
  run_case.settings.learning_rate_schedule.name = "cosine";
  std::map<std::int64_t, Snapshot> snapshots;
  run(run_case, 1, {.snapshots = &snapshots});
  for (const auto& [batch_size, per_epoch] : {std::pair(600, 2), std::pair(100, 11)}) {
    run_case.settings.batch_size = batch_size;
    const std::vector<double> whole = rates_of(run_case, {});
    ASSERT_EQ(std::ssize(whole), 3 * per_epoch);
    EXPECT_EQ(rates_of(run_case, {.from = &snapshots.at(4)}),
              std::vector<double>(whole.begin() + per_epoch, whole.end()));
  }
}

TEST(RunState, KnowsHowManyStepsItIsAhead) {
  const RunState state{.step = 12, .epoch = 2, .samples = 600};
  EXPECT_EQ(steps_ahead(state, 300, 1200), 2);  // of 4 steps an epoch, and 2 within
  EXPECT_EQ(steps_ahead(state, 200, 1200), -3);
  EXPECT_EQ(steps_ahead({.step = 12, .epoch = 2, .samples = 1100}, 300, 1100), 0);  // at an epoch's end
  EXPECT_EQ(steps_ahead(RunState(), 300, 1200), 0);
}

TEST(RunState, GivesEachClusterItsPartOfTheEpochsLosses) {
  RunState state{.samples = 128, .epoch_loss = 3, .epoch_losses = {{3, 80}, {5, 48}}};
  const auto of = [&](int cluster, std::vector<std::int64_t> shares) {
    return epoch_loss_of(state, {.cluster = cluster, .samples = std::move(shares)});
  };
  EXPECT_EQ(of(0, {40, 24}), 3);
  EXPECT_EQ(of(1, {40, 24}), 5);
  EXPECT_EQ(of(0, {64}), 8);
  EXPECT_EQ(of(0, {24, 40}), 3);  // 48 of 128 samples, as the other had
  EXPECT_EQ(of(1, {24, 40}), 5);
  EXPECT_EQ(of(1, {32, 16, 16}), 2);
  state.epoch_losses.clear();
  EXPECT_EQ(of(1, {40, 24}), 3);
}

TEST(GoingOn, TheFilesAreContinued) {
  const ScratchFolder whole_folder, folder;
  const RunCase run_case{"", short_run()};
  std::map<std::int64_t, Snapshot> snapshots;
  run(run_case, 2, {.output = whole_folder.path(), .snapshots = &snapshots});
  // As a run leaves them that was killed after step 9, in the middle of a line.
  const auto text = [](const ScratchFolder& of, const char* name) {
    return read_file(of.path() / name, 1 << 20);
  };
  for (const char* name : {"losses.txt", "val_losses.txt", "val_accuracies.txt"}) {
    const std::string whole = text(whole_folder, name);
    write_file(folder.path() / name, whole.substr(0, whole.size() * 4 / 5));
  }
  run(run_case, 3, {.output = folder.path(), .from = &snapshots.at(6)});
  for (const char* name : {"losses.txt", "val_losses.txt", "val_accuracies.txt"})
    EXPECT_EQ(text(folder, name), text(whole_folder, name)) << name;
}

TEST(RunState, ComesBackFromItsText) {
  const RunState state{.step = 41,
                       .epoch = 3,
                       .samples = 1200,
                       .validation_batches = 12,
                       .validations = 3,
                       .base_rate = 1e-3,
                       .learning_rate = 0.1 + 0.2,
                       .sample_digest = 0xfedcba9876543210ULL,
                       .epoch_loss = 1.0 / 3,
                       .epoch_losses = {{1.0 / 3, 700}, {2.0 / 3, 500}},
                       .plateau = {.best = 2.0 / 3, .bad_epochs = 1, .cooldown_left = 2}};
  EXPECT_EQ(run_state_from(to_text(state)), state);
  EXPECT_EQ(run_state_from(to_text(RunState())), RunState());
  RunState infinite = state;
  infinite.epoch_loss = std::numeric_limits<double>::infinity();
  infinite.epoch_losses.front().loss = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(run_state_from(to_text(infinite)), infinite);
  for (const char* text : {"", "{}", "[]", R"({"step": "x"})"}) EXPECT_THROW(run_state_from(text), DataError);
  for (const char* number : {"1e30", "0.5", "-1", "9223372036854775807", "18446744073709551615"}) {
    std::string text = to_text(RunState());
    const std::string key = R"("validation_batches":)";
    text.replace(text.find(key) + key.size(), 1, number);
    EXPECT_THROW(run_state_from(text), DataError) << text;
  }
}

}  // namespace
}  // namespace rookery
