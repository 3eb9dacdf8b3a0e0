#include "fusion/evaluate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "fusion/inference/outputs.hpp"
#include "fusion/merge.hpp"
#include "models/base/error.hpp"
#include "models/graph/ops/builder.hpp"
#include "tests/fusion/trained_cluster.hpp"
#include "tests/support/damaged_file.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/repository.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Sample i holds the values i, 10 i; its label is i % 2.
class TwoValues : public Dataset {
 public:
  std::int64_t size() const override { return 7; }
  const ValueTypes& tensors() const override {
    static const ValueTypes types{{"x", {DType::kF32, {kBatch, 2}}}, {kLabels, {DType::kI64, {kBatch}}}};
    return types;
  }
  std::int64_t bytes() const override { return 0; }
  void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (name == kLabels) {
        into.as<std::int64_t>()[i] = ids[i] % 2;
      } else {
        into.as<float>()[2 * i] = static_cast<float>(ids[i]);
        into.as<float>()[2 * i + 1] = 10.0F * static_cast<float>(ids[i]);
      }
    }
  }
};

// y0 = x0, y1 = 3.
Graph linear_model() {
  GraphBuilder build;
  const ValueId x = build.input("x", {2});
  return build.finish(build.linear("dense", build.dropout("dropout", x, 0.5F), 2));
}

StateDict linear_state() {
  StateDict state;
  state.emplace("dense.weight", Tensor(DType::kF32, {2, 2}));
  state.at("dense.weight").as<float>()[0] = 1;
  state.emplace("dense.bias", Tensor(DType::kF32, {2}));
  state.at("dense.bias").as<float>()[1] = 3;
  return state;
}

TEST(ModelOutputs, AreThoseOfEverySampleForEveryBatchSize) {
  const std::vector<std::int64_t> ids{6, 0, 3, 1, 5};
  for (const std::int64_t batch : {1, 2, 5, 100}) {
    const StateDict outputs =
        model_outputs(linear_model(), linear_state(), TwoValues(), {"cross_entropy"}, ids, batch);
    ASSERT_EQ(outputs.size(), 1U);
    const auto& [name, tensor] = *outputs.begin();
    EXPECT_EQ(name, "dense_out");
    EXPECT_EQ(tensor.type(), (TensorType{DType::kF32, {5, 2}}));
    EXPECT_THAT(tensor.as<float>(), testing::ElementsAre(6, 3, 0, 3, 3, 3, 1, 3, 5, 3)) << "batch " << batch;
  }
}

TEST(ModelOutputs, WithoutARowPerSampleAreRefused) {
  GraphBuilder build;
  const ValueId x = build.input("x", {2});
  const Graph mean = build.finish(build.apply("mean", "ReduceMean", {x}, {{"keepdims", std::int64_t{0}}}));
  const std::vector<std::int64_t> ids{0, 1};
  try {
    model_outputs(mean, {}, TwoValues(), {"mse"}, ids, 2);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("mean_out"));
  }
}

TEST(EvaluateInMemory, MeanLossAndAccuracyForEveryBatchSize) {
  const std::vector<std::int64_t> ids{0, 1, 2, 3, 4, 5, 6};
  // Errors to the one-hot targets: even i: (i - 1)^2 + 9; odd i: i^2 + 4.
  double loss = 0;
  for (const std::int64_t i : ids)
    loss += static_cast<double>(i % 2 == 0 ? (i - 1) * (i - 1) + 9 : i * i + 4);
  loss /= 2 * 7;
  for (const std::int64_t batch : {1, 2, 3, 7, 1000}) {
    const Evaluation result = evaluate(linear_model(), "mse", linear_state(), TwoValues(), ids, batch);
    EXPECT_NEAR(result.loss, loss, 1e-5) << batch;
    // The first output is the larger one from 3 on, where both are equal.
    ASSERT_NE(result.classifier(), nullptr);
    EXPECT_EQ(result.classifier()->correct, 3) << batch;
    EXPECT_EQ(result.samples, 7);
    EXPECT_DOUBLE_EQ(*result.classifier()->accuracy(), 300.0 / 7);
  }
}

// The mean is over what counts in all, not of the means of the parts.
TEST(EvaluateInMemory, IgnoredPositionsCountInNoPart) {
  const std::vector<std::int64_t> ids{0, 1, 2, 3, 4, 5, 6};
  LossSettings loss("cross_entropy");
  loss.terms[0].ignore_index = 1;  // leaves samples 0, 2, 4, 6: -log softmax(i, 3)[0]
  double expected = 0;
  for (const int i : {0, 2, 4, 6}) expected += std::log1p(std::exp(3 - i)) / 4;
  for (const std::int64_t batch : {1, 2, 3, 7}) {
    const Evaluation result = evaluate(linear_model(), loss, linear_state(), TwoValues(), ids, batch);
    EXPECT_NEAR(result.loss, expected, 1e-6) << batch;
    EXPECT_EQ(result.classifier()->positions, 4);
    EXPECT_EQ(result.classifier()->correct, 2) << "of 4 and 6";
  }
  const std::vector<std::int64_t> all_ignored{1, 3};
  const Evaluation none = evaluate(linear_model(), loss, linear_state(), TwoValues(), all_ignored, 1);
  EXPECT_EQ(none.loss, 0);
  EXPECT_EQ(none.classifier(), nullptr);
}

TEST(EvaluateInMemory, NamesTheLossAsPeopleDo) {
  LossSettings loss("cross_entropy");
  loss.terms[0].ignore_index = 1;
  const std::vector<std::int64_t> ids{0, 1};
  const auto name = [&] {
    return evaluate(linear_model(), loss, linear_state(), TwoValues(), ids, 2).loss_name;
  };
  EXPECT_EQ(name(), "cross_entropy");
  loss.terms[0].output = linear_model().value(linear_model().outputs()[0]).name;
  loss.terms.push_back({.name = "mse", .output = loss.terms[0].output, .weight = 0.5});
  EXPECT_EQ(name(), "cross_entropy + 0.5 mse");
}

TEST(EvaluateInMemory, ModelAndDataMustFit) {
  const std::vector<std::int64_t> ids{0, 1};
  EXPECT_THROW(evaluate(cnn_net(), "mse", trained_cnn_net(), TwoValues(), ids, 2), ConfigError);
  EXPECT_THROW(evaluate(linear_model(), "mse", linear_state(), TwoValues(), {}, 2), ConfigError);
  EXPECT_THROW(evaluate(linear_model(), "huber", linear_state(), TwoValues(), ids, 2), ConfigError);
  EXPECT_THROW(evaluate(linear_model(), "mse", {}, TwoValues(), ids, 2), DataError);
}

class Evaluate : public testing::Test {
 protected:
  Evaluate() {
    const std::filesystem::path datasets = folder_.path() / "datasets";
    make_directories(datasets);
    std::filesystem::copy_file(kNodeData / "datasets/digits.csv.gz", datasets / "digits.csv.gz");
    write_safetensors(state_, trained_cnn_net(), metadata_);
  }

  EvaluationRequest request() const { return {.state = state_, .node_data = folder_.path()}; }
  std::string error(const EvaluationRequest& request) {
    try {
      evaluate(request);
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return {};
  }

  ScratchFolder folder_;
  std::filesystem::path state_ = folder_.path() / "state.safetensors";
  Metadata metadata_{{"model", "cnn_net"},      {"data", "digits"},    {"seed", "42"},
                     {"train_fraction", "0.6"}, {"split", "shuffled"}, {"loss", "mse"}};
};

TEST_F(Evaluate, Subsets) {
  EvaluationRequest asked = request();
  EXPECT_EQ(evaluate(asked).samples, 719);
  asked.subset = subset_named("train");
  const Evaluation train = evaluate(asked);
  EXPECT_EQ(train.samples, 1078);
  asked.subset = subset_named("all");
  const Evaluation all = evaluate(asked);
  EXPECT_EQ(all.samples, 1797);
  const Evaluation validation = evaluate(request());
  EXPECT_EQ(all.classifier()->correct, train.classifier()->correct + validation.classifier()->correct);
  EXPECT_NEAR(all.loss * 1797, train.loss * 1078 + validation.loss * 719, 1e-3);
  EXPECT_THROW(subset_named("test"), UsageError);
}

TEST_F(Evaluate, AgreesWithTheTrainersValidation) {
  TrainingSettings settings;
  settings.epochs = 3;
  const auto dataset = open_dataset("digits", folder_.path());
  const Graph model = cnn_net();
  const std::vector<OpId> cuts = cut_positions(model);
  const PipelineResult trained = run_pipeline(cnn_net(), std::vector<OpId>{0, cuts[3]}, settings, *dataset);
  write_safetensors(state_, trained.state, metadata_);
  const Evaluation result = evaluate(request());
  ASSERT_NE(result.classifier(), nullptr);
  EXPECT_GT(*result.classifier()->accuracy(), 50);
  EXPECT_NEAR(*result.classifier()->accuracy(), trained.accuracies.back(), 0.2);
}

TEST_F(Evaluate, WhatIsAskedForGoesBeforeTheFile) {
  EvaluationRequest asked = request();
  asked.data = "csv:datasets/digits.csv.gz";  // not scaled
  EXPECT_NE(evaluate(asked).loss, evaluate(request()).loss);
  asked = request();
  asked.seed = 43;
  EXPECT_NE(evaluate(asked).loss, evaluate(request()).loss);
  asked = request();
  asked.model = "mnist_mlp";
  EXPECT_THAT(error(asked),
              HasSubstr("the model's input 'input' is f32[batch, 784], but 'input' of the data set is "
                        "f32[batch, 64]"));
}

TEST_F(Evaluate, TrainJsonFillsWhatTheFileDoesNotTell) {
  const Evaluation expected = evaluate(request());
  write_safetensors(state_, trained_cnn_net());
  EXPECT_THAT(error(request()), HasSubstr("state.safetensors: its metadata has no model, and there is no"));
  write_file(folder_.path() / "train.json", R"({"model": "cnn_net", "data": "digits"})");
  EXPECT_EQ(evaluate(request()).loss, expected.loss);
}

TEST_F(Evaluate, StatesThatDoNotFit) {
  metadata_["seed"] = "forty-two";
  write_safetensors(state_, trained_cnn_net(), metadata_);
  EXPECT_THAT(error(request()), HasSubstr("the seed 'forty-two', which is no number"));
  metadata_["seed"] = "42";
  metadata_["split"] = "odd";
  write_safetensors(state_, trained_cnn_net(), metadata_);
  EXPECT_THAT(error(request()), HasSubstr("split"));
  metadata_["split"] = "shuffled";
  metadata_["train_fraction"] = "nan";
  write_safetensors(state_, trained_cnn_net(), metadata_);
  EXPECT_THAT(error(request()), HasSubstr("train_fraction"));
  metadata_["train_fraction"] = "0.6";
  StateDict state = trained_cnn_net();
  state.erase("bn_2.running_var");
  write_safetensors(state_, state, metadata_);
  EXPECT_THAT(error(request()), HasSubstr("'bn_2.running_var' is missing"));
  EvaluationRequest asked = request();
  asked.state = "nowhere.safetensors";
  EXPECT_THAT(error(asked), HasSubstr("nowhere.safetensors"));
}

TEST_F(Evaluate, EveryFormOfATrainedModel) {
  const TrainedCluster cluster;
  cluster.write_checkpoint(cluster.node(0).settings);
  const FusedFiles files = write_fused(fuse_cluster(cluster.node_data(), 0), folder_.path() / "trained");
  const std::filesystem::path stage = cluster.submodel(1).parent_path();
  const Evaluation expected = evaluate(request());
  write_file(folder_.path() / "train.json", R"({"model": "cnn_net", "data": "digits"})");
  for (const std::filesystem::path& form :
       {files.safetensors, files.pytorch, files.onnx, stage.parent_path(), stage, stage / "",
        cluster.submodel(1), cluster.checkpoint(), cluster.checkpoint() / ""}) {
    EvaluationRequest asked = request();
    asked.state = form;
    const Evaluation result = evaluate(asked);
    EXPECT_EQ(result.loss, expected.loss) << form;
    const bool is_checkpoint = form.string().starts_with(cluster.checkpoint().string());
    EXPECT_EQ(result.checkpoint_step, is_checkpoint ? std::optional(TrainedCluster::kStep) : std::nullopt);
  }
  // A model needs no name; another one may be asked for.
  EvaluationRequest asked = request();
  asked.state = files.onnx;
  asked.model = "mnist_mlp";
  EXPECT_THAT(error(asked), HasSubstr("the model's input 'input' is f32[batch, 784]"));
}

TEST_F(Evaluate, PartsOfAClusterWithoutTheRest) {
  const TrainedCluster cluster;
  std::filesystem::remove(cluster.submodel(0));
  EvaluationRequest asked = request();
  asked.state = cluster.submodel(1);
  EXPECT_THAT(error(asked), HasSubstr("node_0 has no trained submodel"));
  asked.state = folder_.path() / "trained.safetensors";
  std::filesystem::copy_file(cluster.submodel(1), asked.state);
  EXPECT_THAT(error(asked), HasSubstr("A stage's weights are no whole model"));
  asked.state = folder_.path();
  EXPECT_THAT(error(asked), HasSubstr("neither a folder cluster_C"));
}

TEST_F(Evaluate, ACheckpointSaysWhatItIsToBeMeasuredWith) {
  const TrainedCluster cluster;
  TrainingSettings settings = cluster.node(0).settings;
  settings.seed = 43;
  settings.loss = "cross_entropy";
  cluster.write_checkpoint(settings);
  EvaluationRequest asked = request();
  asked.state = cluster.checkpoint();
  const Evaluation result = evaluate(asked);
  metadata_["seed"] = "43";
  metadata_["loss"] = "cross_entropy";
  write_safetensors(state_, trained_cnn_net(), metadata_);
  EXPECT_EQ(result.loss, evaluate(request()).loss);
  EXPECT_EQ(result.loss_name, "cross_entropy");
}

TEST_F(Evaluate, ACheckpointThatIsNotWholeIsRefused) {
  const TrainedCluster cluster;
  cluster.write_checkpoint(cluster.node(0).settings);
  const std::filesystem::path part =
      part_path({cluster.node_data(), cluster.node(2).plan_id, 2, 3}, TrainedCluster::kStep);
  EvaluationRequest asked = request();
  asked.state = part;
  EXPECT_THAT(error(asked), AllOf(HasSubstr("a part of a checkpoint is no whole model"),
                                  HasSubstr("name its folder, " + cluster.checkpoint().string())));
  flip_bit(part);
  asked.state = cluster.checkpoint();
  EXPECT_THAT(error(asked), AllOf(HasSubstr(part.string()), HasSubstr("damaged: tensor")));
  std::filesystem::remove(part);
  EXPECT_THAT(error(asked), HasSubstr("has no part of stage 2 of 3"));
}

TEST_F(Evaluate, Command) {
  const std::string command = fmt::format("'{}/evaluate' --state '{}' --node-data '{}'", kPrograms,
                                          state_.string(), folder_.path().string());
  const Evaluation expected = evaluate(request());
  const CommandResult text = run_command(command);
  EXPECT_EQ(text.exit_code, 0) << text.output;
  EXPECT_THAT(text.output, HasSubstr(fmt::format("accuracy  {:.2f}%", *expected.classifier()->accuracy())));
  EXPECT_THAT(run_command(command + " --json").output, HasSubstr(R"("samples":719)"));
  const TrainedCluster cluster;
  cluster.write_checkpoint(cluster.node(0).settings);
  const std::string of_checkpoint = fmt::format("'{}/evaluate' --state '{}' --node-data '{}'", kPrograms,
                                                cluster.checkpoint().string(), folder_.path().string());
  EXPECT_THAT(run_command(of_checkpoint).output, HasSubstr("cnn_net after step 1700 on digits"));
  EXPECT_THAT(run_command(of_checkpoint + " --json").output,
              HasSubstr(fmt::format(R"("step":1700,"checkpoint":"{}")", cluster.checkpoint().string())));
  EXPECT_EQ(run_command(command + " --split odd").exit_code, 2);
  EXPECT_EQ(run_command(command + " --batch 0").exit_code, 2);
  EXPECT_EQ(run_command(command + " --data csv:nowhere").exit_code, 1);
  EXPECT_EQ(run_command(fmt::format("'{}/evaluate'", kPrograms)).exit_code, 2);
}

}  // namespace
}  // namespace rookery
