#include "models/zoo/zoo.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "models/base/error.hpp"
#include "models/graph/passes/loss.hpp"
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
  EXPECT_EQ(types[graph.at("input")], (TensorType{DType::kF32, {5, 1, 8, 8}}));
  const ValueId output = graph.outputs().at(0);
  EXPECT_EQ(types[output], (TensorType{DType::kF32, {5, 10}}));
  EXPECT_EQ(graph.op(graph.value(output).producer).type, "Softmax");
  EXPECT_EQ(types[graph.at("max_pool_3_out")].shape, (Shape{5, 32, 1, 1}));
}

TEST(MnistMlp, MapsPixelsToLogits) {
  const Graph graph = mnist_mlp();
  EXPECT_THAT(op_names(graph), ElementsAre("dense_1", "relu_1", "dense_2", "relu_2", "dense_3"));
  EXPECT_EQ(count_parameters(graph), 784 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10);
  EXPECT_EQ(graph.types(3)[graph.outputs().at(0)].shape, (Shape{3, 10}));
}

TEST(DeepMlp, HasTenHiddenLayers) {
  const Graph graph = deep_mlp();
  EXPECT_EQ(graph.ops().size(), 21U);
  EXPECT_EQ(count_parameters(graph),
            784 * 128 + 128 + 128 * 512 + 512 + 8 * (512 * 512 + 512) + 512 * 10 + 10);
}

TEST(Vgg11, MayEndInOneLayerForSmallImages) {
  const Graph graph = vgg11({.image_size = 64, .classes = 7, .hidden = 0});
  EXPECT_EQ(count_parameters(graph), 9'220'480 + 7 * (512 * 4 + 1));  // torchvision's features, and a layer
  EXPECT_EQ(graph.types(1)[graph.at("flatten_out")].shape, (Shape{1, 512 * 4}));
  EXPECT_THROW(vgg11({.image_size = 64}), ConfigError);
}

TEST(Resnet18, HalvesTheImageFiveTimes) {
  const Graph graph = resnet18({.image_size = 64});
  const auto types = graph.types(3);
  EXPECT_EQ(types[graph.at("maxpool_out")].shape, (Shape{3, 64, 16, 16}));
  EXPECT_EQ(types[graph.at("layer4.1.relu2_out")].shape, (Shape{3, 512, 2, 2}));
}

TEST(Inception, HasItsAuxiliaryHeadWhereImagesAreLarge) {
  const auto outputs = [](const Graph& graph) {
    std::vector<std::string> names;
    for (const ValueId id : graph.outputs()) names.push_back(graph.value(id).name);
    return names;
  };
  EXPECT_THAT(outputs(zoo_model("inception_v3?image_size=300")), ElementsAre("logits", "aux_logits"));
  EXPECT_THAT(outputs(zoo_model("inception_v3?image_size=75&aux=0")), ElementsAre("logits"));
  EXPECT_THROW(zoo_model("inception_v3?image_size=298"), ConfigError);
  EXPECT_THROW(zoo_model("inception_v3?image_size=74&aux=0"), ConfigError);
}

TEST(Bert, HasWordEmbeddingsAndTheirLayerInOne) {
  const Graph graph = bert(bert_sizes().at("tiny"));
  const ValueId words = graph.at("bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(
      std::ranges::count_if(graph.ops(), [&](const Op& op) { return std::ranges::count(op.inputs, words); }),
      2);
}

TEST(Widths, OfChannelsAreMultiplesOfEight) {
  const Graph graph = zoo_model("mobilenet_v2?width=0.3");
  for (const ValueId id : graph.parameters()) {
    const Value& value = graph.value(id);
    if (!value.name.starts_with("features.")) continue;
    EXPECT_EQ(value.type.shape[0] % 8, 0) << value.name;
  }
}

TEST(Zoo, EveryModelHasANameOfItsOwnAndTakesALoss) {
  std::set<std::string> names;
  for (const ZooModel& model : zoo()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_FALSE(model.summary.empty());
    Graph graph = zoo_model(model.name);
    add_loss(graph, model.loss);
    EXPECT_GE(cut_positions(graph).size(), 4U) << model.name << " cannot be cut for five nodes";
  }
}

// What it says.
std::string refusal(const std::string& name) {
  try {
    zoo_model(name);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Zoo, RefusesWhatItDoesNotHave) {
  EXPECT_EQ(refusal("cnn-net"),
            "there is no model 'cnn-net'; there are: cnn_net, mnist_mlp, deep_mlp, resnet18, resnet50, "
            "inception_v3, vgg11, mobilenet_v2, bert, gpt, vit, small_xception");
  EXPECT_EQ(refusal("resnet18?image_size=16"),
            "resnet18: option image_size: '16' is not an integer from 32 to 4096");
  EXPECT_EQ(refusal("resnet18?depth=3"),
            "resnet18 has no option 'depth'; there are: image_size, classes, width");
  EXPECT_EQ(refusal("cnn_net?width=2"), "cnn_net has no option 'width'; it has none");
  EXPECT_EQ(refusal("gpt?size=huge"),
            "gpt: option size: 'huge' is none of: gpt2, gpt2-large, gpt2-medium, gpt2-xl, micro, mini, nano");
  EXPECT_EQ(refusal("gpt?heads=5"), "gpt: a width of 48 has no 5 equal heads");
  EXPECT_EQ(refusal("vit?image_size=225"),
            "vit: images of 225 pixels a side are not cut into patches of 16 evenly");
}

}  // namespace
}  // namespace rookery
