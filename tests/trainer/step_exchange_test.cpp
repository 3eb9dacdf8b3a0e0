// What stages exchange at the end of a step and of an epoch, in whole runs.
#include "trainer/step_exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/digits.hpp"
#include "tests/support/done_transfer.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/tied_model.hpp"
#include "trainer/feed/split.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TrainingSettings adamw_run() {
  TrainingSettings settings;
  settings.loss = "cross_entropy";
  settings.epochs = 3;
  settings.batch_size = 200;
  settings.optimizer = optimizer_defaults("adamw");
  settings.optimizer.learning_rate = 0.01;
  return settings;
}

const Graph& tied_graph() {
  static const Graph graph = tied_model({1, 8, 8}, 10);
  return graph;
}

std::vector<OpId> positions_of(const Graph& model, const TrainingSettings& settings) {
  Graph graph = model;
  add_loss(graph, settings.loss);
  return cut_positions(graph);
}

// Evenly, into up to as many stages as there are ops.
std::vector<OpId> cut_into(std::size_t stages, const Graph& model, const TrainingSettings& settings) {
  const std::vector<OpId> positions = positions_of(model, settings);
  std::vector<OpId> begins{0};
  for (std::size_t k = 1; k < stages; ++k) begins.push_back(positions[k * positions.size() / stages]);
  return begins;
}

using MakeLinks = std::function<std::vector<std::unique_ptr<Link>>(int stages)>;

// Runs on 1, 2, 3, 5 stages and on as many as there can be agree in every bit.
PipelineResult expect_same_in_every_cut(const Graph& model, const TrainingSettings& settings,
                                        const MakeLinks& make_links = {}) {
  PipelineResult whole = run_pipeline(model, cut_into(1, model, settings), settings, digits());
  for (const std::size_t stages :
       {std::size_t{2}, std::size_t{3}, std::size_t{5}, positions_of(model, settings).size() + 1}) {
    const PipelineResult cut = run_pipeline(model, cut_into(stages, model, settings), settings, digits(),
                                            {.output = {}, .make_links = make_links});
    EXPECT_EQ(cut.losses, whole.losses) << stages << " stages";
    EXPECT_EQ(cut.accuracies, whole.accuracies) << stages << " stages";
    EXPECT_TRUE(same_state(cut.state, whole.state)) << stages << " stages";
  }
  return whole;
}

// Two links in one: messages of micro-batches go by the first, all others by the second.
class SplitLink : public Link {
 public:
  SplitLink(std::unique_ptr<Link> of_micro_batches, std::unique_ptr<Link> others)
      : of_micro_batches_(std::move(of_micro_batches)), others_(std::move(others)) {}

  std::unique_ptr<PendingTransfer> begin_send(int to_rank, const MessageKey& key,
                                              ConstTensorView tensor) override {
    return link_for(key).begin_send(to_rank, key, tensor);
  }
  std::unique_ptr<PendingTransfer> begin_receive(int from_rank, const MessageKey& key,
                                                 TensorView into) override {
    return link_for(key).begin_receive(from_rank, key, into);
  }
  void flush() override {}

 private:
  Link& link_for(const MessageKey& key) {
    return key.kind <= MessageKind::kBackwardGradient ? *of_micro_batches_ : *others_;
  }
  std::unique_ptr<Link> of_micro_batches_, others_;
};

TEST(SharedParameters, EveryCutTrainsAlike) {
  for (const int micro_batches : {1, 4}) {
    TrainingSettings settings = adamw_run();
    settings.micro_batches = micro_batches;
    const PipelineResult result = expect_same_in_every_cut(tied_graph(), settings);
    EXPECT_LT(result.losses.back(), 0.7 * result.losses.front());
    EXPECT_EQ(result.state.size(), tied_graph().parameters().size());
  }
}

// What stages exchange at a step's end is waited for, too.
TEST(SharedParameters, TheRootWaitsForLaterStagesAloneAndTheLeafForNone) {
  TrainingSettings settings = adamw_run();
  settings.clip_gradient_norm = 1;
  const PipelineResult result =
      run_pipeline(tied_graph(), cut_into(3, tied_graph(), settings), settings, digits());
  EXPECT_GT(result.times.front().waiting, 0);
  EXPECT_DOUBLE_EQ(result.times.front().waiting_for_later, result.times.front().waiting);
  EXPECT_GT(result.times.back().waiting, 0);
  EXPECT_EQ(result.times.back().waiting_for_later, 0);
}

// One message at a time between two stages when a step ends: nobody waits in a circle.
TEST(SharedParameters, TheNarrowestLinkIsWideEnough) {
  TrainingSettings settings = adamw_run();
  settings.epochs = 1;
  settings.clip_gradient_norm = 1;
  expect_same_in_every_cut(tied_graph(), settings, [](int stages) {
    auto wide = make_memory_links(stages, std::chrono::seconds(60));
    auto narrow = make_memory_links(stages, std::chrono::seconds(60), 1);
    std::vector<std::unique_ptr<Link>> links;
    for (std::size_t i = 0; i < wide.size(); ++i)
      links.push_back(std::make_unique<SplitLink>(std::move(wide[i]), std::move(narrow[i])));
    return links;
  });
}

TEST(Clipping, EveryCutTrainsAlike) {
  for (const int micro_batches : {1, 4}) {
    TrainingSettings settings = adamw_run();
    settings.micro_batches = micro_batches;
    settings.optimizer = optimizer_defaults("sgd");
    settings.optimizer.learning_rate = 0.1;
    const PipelineResult loose = run_pipeline(tied_graph(), std::vector<OpId>{0}, settings, digits());
    settings.clip_gradient_norm = 0.05;
    const PipelineResult clipped = expect_same_in_every_cut(tied_graph(), settings);
    EXPECT_NE(clipped.losses, loose.losses);
    settings.clip_gradient_norm = 1e6;
    EXPECT_EQ(run_pipeline(tied_graph(), std::vector<OpId>{0}, settings, digits()).losses, loose.losses);
  }
}

TEST(Clipping, EveryCutOfTheCnnTrainsAlike) {
  TrainingSettings settings = adamw_run();
  settings.loss = "mse";
  settings.epochs = 1;
  settings.clip_gradient_norm = 0.01;
  expect_same_in_every_cut(cnn_net(), settings);
}

// What the Leaf is told, by steps done.
class KeptNorms : public RunLog {
 public:
  void after_update(const Progress& progress, const BatchResult& /*batch*/) override {
    EXPECT_TRUE(norms.empty() || norms.rbegin()->first <= progress.step) << "told before its step";
    lines_behind = std::max(lines_behind, progress.step - (norms.empty() ? 0 : norms.rbegin()->first));
  }
  void after_gradients(std::int64_t step, double norm) override { norms[step] = norm; }

  std::map<std::int64_t, double> norms;
  std::int64_t lines_behind = 0;  // steps that are done, and whose norm is not told
};

KeptNorms norms_of(const TrainingSettings& settings, std::size_t stages) {
  KeptNorms kept;
  const auto keep = [&](const Stage& stage, Executable&, Link&, TrainerOptions options) {
    if (stage.is_leaf()) options.logs.push_back(&kept);
    return options;
  };
  run_pipeline(tied_graph(), cut_into(stages, tied_graph(), settings), settings, digits(),
               {.make_trainer_options = keep});
  return kept;
}

// Without clipping from parts that the stages send to the Leaf, which are added in another order.
TEST(GradientNorms, AreThoseThatClippingComputes) {
  TrainingSettings settings = adamw_run();
  settings.micro_batches = 2;
  settings.clip_gradient_norm = 1e6;
  const std::map<std::int64_t, double> expected = norms_of(settings, 3).norms;
  ASSERT_EQ(expected.size(), 18U);
  settings.clip_gradient_norm.reset();
  for (const std::size_t stages : {std::size_t{1}, std::size_t{3}}) {
    const KeptNorms found = norms_of(settings, stages);
    EXPECT_LE(found.lines_behind, 1) << "lines of metrics.jsonl are not in order";
    ASSERT_EQ(found.norms.size(), expected.size());
    for (const auto& [step, norm] : expected) {
      EXPECT_GT(norm, 0);
      EXPECT_NEAR(found.norms.at(step), norm, 1e-9 * norm) << "after step " << step;
    }
  }
}

TEST(GradientNorms, OfAsyncAreToldInTheEnd) {
  TrainingSettings settings = adamw_run();
  settings.schedule = {.name = "async"};
  EXPECT_EQ(norms_of(settings, 3).norms.size(), 18U);
}

TEST(GradientNorms, OfLongRunsAreThinned) {
  TrainingSettings settings = adamw_run();
  settings.batch_size = 8;
  settings.epochs = 9;
  const std::int64_t steps = 9 * 135;
  const std::map<std::int64_t, double> norms = norms_of(settings, 2).norms;
  EXPECT_EQ(std::ssize(norms), steps / 2);
  EXPECT_EQ(norms.begin()->first, 2);
}

TEST(GradientNorms, AreNotComputedWhereNobodyAsks) {
  TrainingSettings settings = adamw_run();
  settings.tensorboard = false;
  EXPECT_TRUE(norms_of(settings, 2).norms.empty());
}

TEST(PlateauSchedule, EveryCutFollowsIt) {
  TrainingSettings settings = adamw_run();
  settings.epochs = 8;
  settings.optimizer.learning_rate = 0.03;
  for (const std::string metric : {"training_loss", "validation_loss", "validation_accuracy"}) {
    settings.learning_rate_schedule = {.name = "constant"};
    const PipelineResult constant = run_pipeline(tied_graph(), std::vector<OpId>{0}, settings, digits());
    settings.learning_rate_schedule = {.name = "plateau",
                                       .metric = metric,
                                       .mode = metric == "validation_accuracy" ? "max" : "min",
                                       .patience = 0,
                                       .threshold = 0.3};
    const PipelineResult result = expect_same_in_every_cut(tied_graph(), settings);
    EXPECT_NE(result.losses, constant.losses) << metric << ": the rate has never dropped";
    EXPECT_TRUE(std::equal(result.losses.begin(), result.losses.begin() + 6, constant.losses.begin()));
  }
}

// The first validation, after epoch 3, is better than none; the second, after epoch 6, lets the rate drop.
TEST(PlateauSchedule, WaitsForTheEpochsThatAreValidated) {
  TrainingSettings settings = adamw_run();
  settings.epochs = 7;
  settings.validate_every = 3;
  const PipelineResult constant = run_pipeline(tied_graph(), std::vector<OpId>{0}, settings, digits());
  settings.learning_rate_schedule = {
      .name = "plateau", .factor = 0.5, .patience = 0, .threshold = 1e6, .threshold_mode = "abs"};
  const PipelineResult result = expect_same_in_every_cut(tied_graph(), settings);
  ASSERT_EQ(result.losses.size(), 42U);
  EXPECT_TRUE(std::equal(result.losses.begin(), result.losses.begin() + 37, constant.losses.begin()));
  EXPECT_NE(result.losses[37], constant.losses[37]);
}

TEST(PlateauSchedule, WithoutSamplesToValidateWithItIsRefused) {
  TrainingSettings settings = adamw_run();
  settings.train_fraction = 1;
  settings.learning_rate_schedule = {.name = "plateau"};
  try {
    run_pipeline(tied_graph(), std::vector<OpId>{0}, settings, digits());
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("validation_loss"), HasSubstr("train_fraction")));
  }
}

// Hands out zeros, and a lie where a number of one kind is expected.
class LyingLink : public Link {
 public:
  LyingLink(MessageKind kind, double lie) : kind_(kind), lie_(lie) {}

  std::unique_ptr<PendingTransfer> begin_send(int, const MessageKey&, ConstTensorView) override {
    return std::make_unique<DoneTransfer>();
  }
  std::unique_ptr<PendingTransfer> begin_receive(int, const MessageKey& key, TensorView into) override {
    std::ranges::fill(into.bytes(), std::byte{0});
    if (key.kind == kind_) std::memcpy(into.data, &lie_, sizeof(lie_));
    return std::make_unique<DoneTransfer>();
  }
  void flush() override {}

 private:
  MessageKind kind_;
  double lie_;
};

// What a stage of three makes of it.
std::string error_of(int stage, MessageKind kind, double lie) {
  TrainingSettings settings = adamw_run();
  settings.epochs = 2;
  settings.clip_gradient_norm = 1;
  settings.learning_rate_schedule = {.name = "plateau"};
  Graph graph = tied_graph();
  add_loss(graph, settings.loss);
  const Stage part = cut(graph, cut_into(3, tied_graph(), settings))[stage];
  StateDict state;
  for (auto& [name, tensor] : initial_state(graph, 1)) {
    if (part.graph.find(name)) state.emplace(name, tensor.clone());
  }
  const Split split = split_dataset(digits().size(), settings);
  const DataSizes data{std::ssize(split.train), std::ssize(split.validation)};
  Executable executable(part, compile_options(settings, data, stage, 3, choose_kernels(graph, 200)), state);
  LyingLink link(kind, lie);
  Trainer trainer(executable, link, &digits(), {.settings = settings, .data = data, .logs = {}});
  try {
    trainer.run();
  } catch (const TransportError& error) {
    return error.what();
  }
  return "none";
}

TEST(StepExchange, NumbersThatNobodyCanHaveComputedAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(error_of(0, MessageKind::kBackwardLearningRate, 0), "none");
  EXPECT_THAT(error_of(0, MessageKind::kSquares, -1),
              HasSubstr("receive squared gradients of step 0 from stage 1: it is no sum"));
  for (const double rate : {-1.0, 1.0, nan}) {
    EXPECT_THAT(error_of(1, MessageKind::kBackwardLearningRate, rate),
                AllOf(HasSubstr("learning rate from step 6 on from stage 2"), HasSubstr("can only fall")));
  }
}

}  // namespace
}  // namespace rookery
