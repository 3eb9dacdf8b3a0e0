#include "models/zoo/zoo.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "models/base/error.hpp"
#include "models/graph/loss.hpp"
#include "models/graph/stage.hpp"
#include "tests/support/graph_names.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;

std::int64_t count_parameters(const Graph& graph) {
  std::int64_t count = 0;
  for (const ValueId id : graph.parameters()) count += graph.value(id).type.shape.elements();
  return count;
}

TEST(CnnNet, HasTheOpsOfTheArchitecture) {
  EXPECT_THAT(op_names(cnn_net()),
              ElementsAre("conv2d_1", "relu_1", "max_pool_1", "dropout_1", "bn_1", "max_pool_2", "conv2d_2",
                          "relu_2", "max_pool_3", "dropout_2", "bn_2", "flatten", "dense_1", "relu_3",
                          "dropout_3", "bn_3", "dense_2", "softmax"));
}

TEST(CnnNet, HasItsParametersAndBuffers) {
  const Graph graph = cnn_net();
  std::vector<std::string> names;
  for (const ValueId id : graph.parameters()) names.push_back(graph.value(id).name);
  EXPECT_THAT(names,
              ElementsAre("conv2d_1.weight", "conv2d_1.bias", "bn_1.weight", "bn_1.bias", "conv2d_2.weight",
                          "conv2d_2.bias", "bn_2.weight", "bn_2.bias", "dense_1.weight", "dense_1.bias",
                          "bn_3.weight", "bn_3.bias", "dense_2.weight", "dense_2.bias"));
  EXPECT_EQ(count_parameters(graph), 16426);
  EXPECT_EQ(graph.buffers().size(), 9U);
}

TEST(CnnNet, MapsImagesToClassProbabilities) {
  const Graph graph = cnn_net();
  const auto types = graph.types(5);
  EXPECT_EQ(types[static_cast<std::size_t>(graph.at("input"))], (TensorType{DType::kF32, {5, 1, 8, 8}}));
  const ValueId output = graph.outputs().at(0);
  EXPECT_EQ(types[static_cast<std::size_t>(output)], (TensorType{DType::kF32, {5, 10}}));
  EXPECT_EQ(graph.op(graph.value(output).producer).type, "Softmax");
  EXPECT_EQ(types[static_cast<std::size_t>(graph.at("max_pool_3_out"))].shape, (Shape{5, 32, 1, 1}));
}

TEST(MnistMlp, MapsPixelsToLogits) {
  const Graph graph = mnist_mlp();
  EXPECT_THAT(op_names(graph), ElementsAre("dense_1", "relu_1", "dense_2", "relu_2", "dense_3"));
  EXPECT_EQ(count_parameters(graph), 784 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10);
  EXPECT_EQ(graph.types(3)[static_cast<std::size_t>(graph.outputs().at(0))].shape, (Shape{3, 10}));
}

TEST(DeepMlp, HasTenHiddenLayers) {
  const Graph graph = deep_mlp();
  EXPECT_EQ(graph.ops().size(), 21U);
  EXPECT_EQ(count_parameters(graph),
            784 * 128 + 128 + 128 * 512 + 512 + 8 * (512 * 512 + 512) + 512 * 10 + 10);
}

TEST(Vgg11, HasTheConvolutionsOfTheArchitecture) {
  const Graph graph = vgg11();
  EXPECT_EQ(count_parameters(graph), 9'220'480 + 5130);  // torchvision's features, and a linear layer
  EXPECT_EQ(graph.at("features.18.weight"), graph.op(18).inputs[1]);
  EXPECT_EQ(graph.types(3)[static_cast<std::size_t>(graph.outputs().at(0))].shape, (Shape{3, 10}));
  const Graph large = vgg11(64, 7);
  EXPECT_EQ(large.types(1)[static_cast<std::size_t>(large.at("flatten_out"))].shape, (Shape{1, 512 * 4}));
}

TEST(Resnet18, HasTorchvisionsParameters) {
  const Graph graph = resnet18(64, 1000);
  EXPECT_EQ(count_parameters(graph), 11'689'512);
  EXPECT_EQ(graph.parameters().size(), 62U);
  EXPECT_EQ(graph.buffers().size(), 60U);
  for (const char* name :
       {"conv1.weight", "layer2.0.downsample.0.weight", "layer2.0.downsample.1.running_var",
        "layer4.1.bn2.num_batches_tracked", "fc.bias"}) {
    EXPECT_TRUE(graph.find(name)) << name;
  }
  const auto types = graph.types(3);
  EXPECT_EQ(types[static_cast<std::size_t>(graph.at("maxpool_out"))].shape, (Shape{3, 64, 16, 16}));
  EXPECT_EQ(types[static_cast<std::size_t>(graph.at("layer4.1.relu2_out"))].shape, (Shape{3, 512, 2, 2}));
}

TEST(Zoo, EveryModelHasANameOfItsOwnAndTakesALoss) {
  std::set<std::string> names;
  for (const ZooModel& model : zoo()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_FALSE(model.summary.empty());
    Graph graph = zoo_model(model.name);
    add_loss(graph, "mse");
    EXPECT_GE(cut_positions(graph).size(), 4U) << model.name << " cannot be cut for five nodes";
  }
}

TEST(Zoo, AnUnknownNameListsTheKnownOnes) {
  try {
    zoo_model("cnn-net");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(
        error.what(),
        "there is no model 'cnn-net'; there are: cnn_net, mnist_mlp, deep_mlp, vgg11, gpt_nano, resnet18");
  }
}

}  // namespace
}  // namespace rookery
