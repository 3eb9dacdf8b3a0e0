// The promise that the cut does not change the training, on models of every kind: the same bits on 1, 2, 3
// and 5 stages, with and without activations kept, for batches in one and in four micro-batches.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/base/rng.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/repository.hpp"
#include "tests/support/tied_model.hpp"
#include "tests/support/two_headed_model.hpp"

namespace rookery {
namespace {

struct Job {
  std::string name;
  std::function<Graph()> model;
  LossSettings loss;
  std::string data;
  double train_fraction = 0.1;
};
void PrintTo(const Job& what, std::ostream* out) {
  *out << what.name;
}

// Convolutions of enough channels for images in blocks, batch norm, and edges that skip them.
Graph residual_model() {
  GraphBuilder b;
  ValueId x = b.input("input", {1, 8, 8});
  x = b.relu("relu_0", b.batch_norm("bn_0", b.conv2d("conv_0", x, 32)));
  for (const std::string block : {"1", "2"}) {
    const ValueId skipped = x;
    x = b.relu("relu_" + block + "a",
               b.batch_norm("bn_" + block + "a", b.conv2d("conv_" + block + "a", x, 32)));
    x = b.batch_norm("bn_" + block + "b", b.conv2d("conv_" + block + "b", x, 32));
    x = b.relu("relu_" + block, b.add("add_" + block, x, skipped));
  }
  x = b.dropout("drop", b.flatten("flat", b.global_avg_pool("mean", x)), 0.2F);
  return b.finish(b.linear("classes", x, 10));
}

// Sums of normalized branches, of which some read the block's input or the sum's other operand, as in RepVGG
// (arXiv 2101.03697).
Graph model_of_branches() {
  GraphBuilder b;
  ValueId x = b.relu("relu_0", b.conv2d("conv_0", b.input("input", {1, 8, 8}), 32));
  for (const std::string block : {"1", "2"}) {
    const ValueId same = b.batch_norm("bn_" + block + "a", x);
    const ValueId wide = b.batch_norm("bn_" + block + "b", b.conv2d("wide_" + block, x, 32));
    const ValueId narrow =
        b.batch_norm("bn_" + block + "c", b.conv2d("narrow_" + block, x, 32, {.kernel = 1}));
    x = b.relu("relu_" + block, b.add("add_" + block, b.add("sum_" + block, wide, narrow), same));
    x = b.add("twice_" + block, x, b.batch_norm("bn_" + block + "d", x));
  }
  return b.finish(b.linear("classes", b.flatten("flat", b.global_avg_pool("mean", x)), 10));
}

// Weights that ops make of parameters, as torch.nn.utils.weight_norm does.
Graph model_of_made_weights() {
  GraphBuilder b;
  ValueId x = b.flatten("flat", b.input("input", {1, 8, 8}));
  std::int64_t width = 64;
  for (const std::string layer : {"first", "second", "third", "fourth"}) {
    const ValueId weight = b.mul(layer + ".made", b.parameter(layer + ".direction", {24, width}),
                                 b.parameter(layer + ".length", {24, 1}));
    x = b.relu(layer + ".relu", b.linear_by(layer, x, weight, b.parameter(layer + ".bias", {24})));
    width = 24;
  }
  return b.finish(b.linear("classes", x, 10));
}

// 40 sequences of six tokens of three kinds; the label of each is the token before it.
void write_token_data(const std::filesystem::path& path) {
  StateDict data;
  data.emplace("input", Tensor(DType::kI64, {40, 6}));
  data.emplace("labels", Tensor(DType::kI64, {40, 6}));
  CounterRng rng(rng_key(7, "tokens"), 0);
  const auto tokens = data.at("input").as<std::int64_t>();
  const auto labels = data.at("labels").as<std::int64_t>();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = rng.next_below(3);
    labels[i] = i % 6 == 0 ? 0 : tokens[i - 1];
  }
  write_safetensors(path, data);
}

const std::vector<Job>& jobs() {
  static const std::vector<Job> all{
      {"CnnNet", cnn_net, "mse", "digits"},
      {"Residual", residual_model, "cross_entropy", "digits"},
      {"Branches", model_of_branches, "cross_entropy", "digits"},
      {"Tied",
       [] {
         return tied_model({1, 8, 8}, 10);
       },
       "cross_entropy", "digits"},
      {"MadeWeights", model_of_made_weights, "cross_entropy", "digits"},
      {"TwoHeaded", two_headed_model, two_headed_loss(), "tensors:two_headed.safetensors", 0.8},
      {"Gpt", [] { return gpt({.length = 6, .layers = 2, .heads = 3, .width = 24}); }, "cross_entropy",
       "tensors:tokens.safetensors", 0.8},
  };
  return all;
}

class EveryCut : public testing::TestWithParam<Job> {};

TEST_P(EveryCut, TrainsTheSameBits) {
  const Job& job = GetParam();
  const ScratchFolder folder;
  write_two_headed_data(folder.path() / "two_headed.safetensors");
  write_token_data(folder.path() / "tokens.safetensors");
  const std::filesystem::path shipped = kNodeData;
  const auto dataset = open_dataset(job.data, job.data == "digits" ? shipped : folder.path());
  TrainingSettings settings;
  settings.loss = job.loss;
  settings.train_fraction = job.train_fraction;
  settings.batch_size = 24;
  settings.epochs = 2;
  settings.clip_gradient_norm = 1;
  for (const int micro_batches : {1, 4}) {
    settings.micro_batches = micro_batches;
    settings.recompute = "none";
    const PipelineResult expected = run_pipeline(job.model(), std::vector<OpId>{0}, settings, *dataset);
    ASSERT_GT(expected.losses.size(), 2U);
    for (const char* recompute : {"none", "full"}) {
      settings.recompute = recompute;
      for (const std::size_t stages : {1, 2, 3, 5}) {
        const auto begins = even_cuts(job.model(), job.loss, *dataset, stages);
        const PipelineResult result = run_pipeline(job.model(), begins, settings, *dataset);
        EXPECT_EQ(result.losses, expected.losses) << stages << " " << recompute << " " << micro_batches;
        EXPECT_EQ(result.accuracies, expected.accuracies)
            << stages << " " << recompute << " " << micro_batches;
        EXPECT_TRUE(same_state(result.state, expected.state))
            << stages << " " << recompute << " " << micro_batches;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EveryCut, testing::ValuesIn(jobs()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace rookery
