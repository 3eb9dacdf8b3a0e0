// Names and shapes of parameters and buffers against those of torchvision, Hugging Face and Keras, in
// tests/golden/zoo_states.txt.gz (made by make_zoo_states.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <map>
#include <sstream>

#include "models/base/libraries/format.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/repository.hpp"

namespace rookery {
namespace {

// "NAME DIMENSION…" by model; tied ones left out.
std::map<std::string, std::vector<std::string>> reference_states() {
  std::string text;
  gzFile file = gzopen((kGolden / "zoo_states.txt.gz").c_str(), "rb");
  std::array<char, 4096> part{};
  for (int got = 0; (got = gzread(file, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  gzclose(file);
  std::map<std::string, std::vector<std::string>> states;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    if (line.find(" = ") == std::string::npos)
      states[line.substr(0, space)].push_back(line.substr(space + 1));
  }
  return states;
}

std::vector<std::string> state_of(const Graph& graph) {
  std::vector<std::string> lines;
  for (const auto& ids : {graph.parameters(), graph.buffers()}) {
    for (const ValueId id : ids) {
      const Value& value = graph.value(id);
      const auto dims = value.type.shape.dims();
      lines.push_back(fmt::format("{}{}{}", value.name, dims.empty() ? "" : " ", fmt::join(dims, " ")));
    }
  }
  return lines;
}

TEST(ZooStates, AreThoseOfTheReferences) {
  const auto references = reference_states();
  EXPECT_EQ(references.size(), 9U);
  for (const auto& [model, expected] : references) {
    SCOPED_TRACE(model);
    EXPECT_THAT(state_of(zoo_model(model)), testing::UnorderedElementsAreArray(expected));
  }
}

std::int64_t count_parameters(const std::string& model) {
  const Graph graph = zoo_model(model);
  std::int64_t count = 0;
  for (const ValueId id : graph.parameters()) count += graph.value(id).type.shape.elements();
  return count;
}

StateDict filled_state(const Graph& graph) {
  StateDict state;
  for (const ValueId id : graph.parameters()) {
    const auto [at, is_new] = state.emplace(graph.value(id).name, Tensor(graph.value(id).type));
    std::ranges::fill(at->second.as<float>(), static_cast<float>(state.size()));
  }
  return state;
}

TEST(ZooStates, OfBertHaveTheSecondNamesOfTiedParameters) {
  const std::string name = "bert?size=tiny&vocabulary=20&positions=8";
  StateDict state = filled_state(zoo_model(name));
  const std::size_t own = state.size();
  StateDict extras = reference_extras(name, state);
  std::vector<std::string> names;
  for (const auto& [extra, tensor] : extras) names.push_back(extra);
  EXPECT_THAT(names, testing::ElementsAre("cls.predictions.decoder.bias", "cls.predictions.decoder.weight"));
  state.merge(extras);
  state.at("cls.predictions.decoder.bias").as<float>()[0] = -1;
  remove_reference_extras(name, state);
  EXPECT_EQ(state.size(), own + 1) << "one that is not tied is not dropped";
  EXPECT_TRUE(state.contains("cls.predictions.decoder.bias"));
}

TEST(ZooStates, OfGptHaveTheMasksOfMinGpt) {
  const StateDict extras = reference_extras("gpt?layers=2&length=3", {});
  ASSERT_EQ(extras.size(), 2U);
  const Tensor& mask = extras.at("transformer.h.1.attn.bias");
  EXPECT_EQ(mask.type(), (TensorType{DType::kF32, {1, 1, 3, 3}}));
  EXPECT_THAT(mask.as<float>(), testing::ElementsAre(1, 0, 0, 1, 1, 0, 1, 1, 1));
  EXPECT_TRUE(reference_extras("resnet18", {}).empty());
  EXPECT_TRUE(reference_extras("model.onnx", {}).empty());
}

// As the documentation of the references says.
TEST(ZooStates, HaveThePublishedNumbersOfParameters) {
  EXPECT_EQ(count_parameters("resnet18"), 11'689'512);
  EXPECT_EQ(count_parameters("resnet50"), 25'557'032);
  EXPECT_EQ(count_parameters("inception_v3"), 27'161'264);
  EXPECT_EQ(count_parameters("vgg11"), 132'863'336);
  EXPECT_EQ(count_parameters("mobilenet_v2"), 3'504'872);
  EXPECT_EQ(count_parameters("vit"), 86'567'656);
  EXPECT_EQ(count_parameters("vit?size=b_32"), 88'224'232);
  EXPECT_EQ(count_parameters("bert"), 110'106'428);
  // GPT-2 has 124,439,808, with the last layer's weights those of the embedding; minGPT has them twice.
  EXPECT_EQ(count_parameters("gpt?size=gpt2"), 124'439'808 + 50'257 * 768);
}

}  // namespace
}  // namespace rookery
