// Models put together by hand: what the importer takes, and what nobody should write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <functional>
#include <numeric>

#include "models/io/onnx/onnx.hpp"
#include "tests/models/io/files.hpp"
#include "tests/models/io/onnx/hand_made.hpp"
#include "tests/models/io/onnx/imported.hpp"

namespace rookery {
namespace {

using onnx_tests::HandMade;
using onnx_tests::names_of;
using onnx_tests::run;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(HandMade, ShapeChainsAreFolded) {
  add_integers("first", {0});
  add_integers("rest", {2, -1});
  add("Shape", {"x"}, {"shape"});
  add("Gather", {"shape", "first"}, {"batch"});
  add("Concat", {"batch", "rest"}, {"to"}).add_attribute()->set_name("axis");
  model_.mutable_graph()->mutable_node(2)->mutable_attribute(0)->set_type(onnx::AttributeProto::INT);
  add("Reshape", {"x", "to"}, {"apart"});
  add("Reshape", {"apart", "shape"}, {"y"});
  const Graph graph = import().graph;
  ASSERT_EQ(graph.ops().size(), 2U);
  EXPECT_EQ(graph.ops()[0].integers("shape", {}), (std::vector<std::int64_t>{-1, 2, 2}));
  EXPECT_EQ(graph.types(7).back(), (TensorType{DType::kF32, {7, 4}}));
}

TEST_F(HandMade, ASequenceOfPartsIsASplit) {
  const auto sequence = [&](const std::vector<std::int64_t>& sizes, std::int64_t position) {
    model_.mutable_graph()->clear_node();
    model_.mutable_graph()->clear_initializer();
    add_integers("sizes", sizes);
    add_integers("position", {position});
    set_integer(add("SplitToSequence", {"x", "sizes"}, {"parts"}), "axis", 1);
    add("SequenceAt", {"parts", "position"}, {"y"});
  };
  sequence({1, 3}, -1);
  const Graph graph = import().graph;
  EXPECT_EQ(graph.types(5)[graph.outputs()[0]].shape, (Shape{5, 3}));
  sequence({1, 3}, 2);
  EXPECT_THAT(error(), HasSubstr("position 2 of a sequence of 2"));
  sequence({1, 2}, 0);
  EXPECT_THAT(error(), HasSubstr("do not make up 4"));
  sequence({1, 3}, 0);
  set_integer(*model_.mutable_graph()->mutable_node(0), "axis", 0);
  EXPECT_THAT(error(), HasSubstr("splits the batch"));
  sequence({1, 3}, 0);
  add("Relu", {"parts"}, {"z"});
  model_.mutable_graph()->mutable_output(0)->set_name("z");
  EXPECT_THAT(error(), HasSubstr("reads a sequence"));
}

TEST_F(HandMade, BlocksOfPlacesAreChannels) {
  model_.mutable_graph()->clear_input();
  add_type(*model_.mutable_graph()->add_input(), "x", {-1, 8, 1, 1});
  Tensor x(DType::kF32, {3, 8, 1, 1});
  std::iota(x.as<float>().begin(), x.as<float>().end(), 0.0F);
  const auto sample = [&](const OnnxModel& model) {
    const std::vector<float> y = run(model.graph, model.state, x.view());
    EXPECT_EQ(y.size(), 24U);
    return std::vector<float>(y.begin() + 8, y.begin() + 16);
  };
  set_integer(add("DepthToSpace", {"x"}, {"y"}), "blocksize", 2);
  EXPECT_THAT(sample(import()), ElementsAre(8, 10, 12, 14, 9, 11, 13, 15));
  set_text(*model_.mutable_graph()->mutable_node(0), "mode", "CRD");
  EXPECT_THAT(sample(import()), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));

  onnx::NodeProto& first = *model_.mutable_graph()->mutable_node(0);
  first.mutable_attribute(1)->set_s("DCR");
  first.set_output(0, "blocks");
  set_integer(add("SpaceToDepth", {"blocks"}, {"y"}), "blocksize", 2);
  EXPECT_THAT(sample(import()), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));

  set_integer(*model_.mutable_graph()->mutable_node(0), "blocksize", 3);
  EXPECT_THAT(error(), HasSubstr("blocks of 3 of ["));
}

TEST_F(HandMade, EquationsThatDoNotFitAreRefused) {
  const auto equation = [&](const std::string& text) {
    model_.mutable_graph()->clear_node();
    set_text(add("Einsum", {"x", "x"}, {"y"}), "equation", text);
    return error();
  };
  set_text(add("Einsum", {"x", ""}, {"y"}), "equation", "bi,bj->b");
  EXPECT_THAT(error(), HasSubstr("lacks its input 1"));
  EXPECT_THAT(equation("bi,bj->bq"), HasSubstr("one that no input has"));
  EXPECT_THAT(equation("bi,bj->bb"), HasSubstr("a letter twice"));
  EXPECT_THAT(equation("bi->b"), HasSubstr("has 2 inputs, but its equation has 1"));
  EXPECT_THAT(equation("bij,bi->b"), HasSubstr("its input 0 has 2 axes, but 3 in the equation"));
  EXPECT_THAT(equation("b1,bi->b"), HasSubstr("'1' in a place"));
  EXPECT_THAT(equation("b....i,bi->b"), HasSubstr("'.' in a place"));
}

// What the exporter has folded has lost its names, and with them the way back into the module.
TEST_F(HandMade, AFixedBatchBecomesTheBatch) {
  model_.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(6);
  add_integers("apart", {6, 2, 2});
  add_integers("together", {6, 4});
  add("Reshape", {"x", "apart"}, {"parts"});
  add("Reshape", {"parts", "together"}, {"y"});
  const Graph graph = import().graph;
  EXPECT_EQ(graph.types(5).back(), (TensorType{DType::kF32, {5, 4}}));
}

TEST_F(HandMade, AFixedBatchThatSamplesDoNotKeepIsRefused) {
  model_.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(6);
  add_integers("mixed", {4, 6});
  add("Reshape", {"x", "mixed"}, {"y"});
  EXPECT_THAT(error(), HasSubstr("where the samples of [6, 4] lie in [4, 6] is not certain"));
}

// One number for all samples, as of torch.zeros(batch, 1), and a parameter for every sample.
TEST_F(HandMade, TensorsOfTheBatchAreRepeated) {
  add_floats("token", {1, 4}, 3);
  add("Shape", {"x"}, {"shape"});
  add("Expand", {"token", "shape"}, {"tokens"});
  add("ConstantOfShape", {"shape"}, {"zeros"});
  add("Sub", {"tokens", "zeros"}, {"difference"});
  add("Add", {"x", "difference"}, {"y"});
  const OnnxModel model = import();
  EXPECT_THAT(names_of(model.graph, model.graph.parameters()), ElementsAre("token"));
  Tensor x(DType::kF32, {3, 4});
  EXPECT_THAT(run(model.graph, model.state, x.view()), testing::Each(3.0F));
}

// As torch.ones(batch, 1) / batch is computed: the same for all samples, and another for other numbers of
// them.
TEST_F(HandMade, TensorsThatTheNumberOfSamplesChangesAreRefused) {
  add("Shape", {"x"}, {"shape"});
  add("ConstantOfShape", {"shape"}, {"zeros"});
  set_integer(add("Softmax", {"zeros"}, {"shares"}), "axis", 0);
  add("Mul", {"x", "shares"}, {"y"});
  EXPECT_THAT(error(), AllOf(HasSubstr("Mul4"), HasSubstr("depends on the batch size")));
}

// As 1 + a parameter of one number is exported where the exporter computes it beforehand.
TEST_F(HandMade, NumbersThatTheExporterHasComputedAreRefused) {
  add_floats("onnx::Mul_5", {1}, 2);
  add("Mul", {"x", "onnx::Mul_5"}, {"y"});
  EXPECT_THAT(error(), AllOf(HasSubstr("onnx::Mul_5"), HasSubstr("has lost the name"),
                             HasSubstr("do_constant_folding=False")));
}

TEST_F(HandMade, ThatDropoutMayHaveBeenDroppedIsTold) {
  add("Identity", {"x"}, {"y"});
  EXPECT_THAT(import().warnings, testing::Contains(HasSubstr("whether it had Dropout")));
  model_.mutable_graph()->clear_node();
  add("Dropout", {"x"}, {"y"});
  EXPECT_THAT(import().warnings, Not(testing::Contains(HasSubstr("whether it had Dropout"))));
}

TEST_F(HandMade, ThatAThresholdMayHaveBeenDroppedIsTold) {
  add("Softplus", {"x"}, {"y"});
  EXPECT_THAT(import().warnings, testing::Contains(HasSubstr("another threshold of softplus() than 20")));
}

// As F.dropout(x.new_ones(x.shape)) is exported: a mask that all steps share.
TEST_F(HandMade, DropoutOfConstantsIsKept) {
  add("Shape", {"x"}, {"shape"});
  add("ConstantOfShape", {"shape"}, {"zeros"});
  add("Cos", {"zeros"}, {"ones"});
  add("Dropout", {"ones"}, {"mask"});
  add("Mul", {"x", "mask"}, {"y"});
  const OnnxModel model = import();
  EXPECT_EQ(std::ranges::count(model.graph.ops(), "Dropout", &Op::type), 1);
  Tensor x(DType::kF32, {3, 4});
  std::ranges::fill(x.as<float>(), 2.0F);
  EXPECT_THAT(run(model.graph, model.state, x.view()), testing::Each(2.0F));
}

TEST_F(HandMade, SizesThatHangOnLostDigitsAreRefused) {
  const auto resize = [&](std::int64_t width, float scale) {
    model_.mutable_graph()->Clear();
    add_type(*model_.mutable_graph()->add_input(), "x", {-1, 1, width});
    onnx::AttributeProto& scales = *add("Constant", {}, {"scales"}).add_attribute();
    scales.set_name("value_floats");
    scales.set_type(onnx::AttributeProto::FLOATS);
    for (const float each : {1.0F, 1.0F, scale}) scales.add_floats(each);
    add("Resize", {"x", "", "scales"}, {"y"});
    add_type(*model_.mutable_graph()->add_output(), "y", {-1, 1, -1});
  };
  resize(100, 0.29F);  // 100 * 0.29 is a little less than 29
  EXPECT_THAT(error(), HasSubstr("its scale of 0.29 makes 28 or 29 of 100"));
  resize(6, 5.0F / 6);  // as a factor of 5 / 6, not of 0.8333333
  EXPECT_THAT(error(), HasSubstr("makes 4 or 5 of 6"));
  for (const auto& [width, scale, size] :
       {std::tuple{100, 0.3F, 30}, {10, 0.7F, 7}, {7, 1.2F, 8}, {9, 1.0F / 3, 3}}) {
    resize(width, scale);
    const Graph graph = import().graph;
    EXPECT_EQ(graph.types(2)[graph.outputs()[0]].shape, (Shape{2, 1, size}));
  }
}

TEST_F(HandMade, ABranchThatIsKnownIsTaken) {
  add("Constant", {}, {"yes"});
  onnx::AttributeProto& value = *model_.mutable_graph()->mutable_node(0)->add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(onnx::TensorProto::BOOL);
  value.mutable_t()->add_int32_data(1);
  onnx::NodeProto& branch = add("If", {"yes"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::AttributeProto& attribute = *branch.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    onnx::NodeProto& node = *attribute.mutable_g()->add_node();
    node.set_op_type(std::string(name) == "then_branch" ? "Relu" : "Loop");
    node.add_input("x");
    node.add_output(std::string("of_") + name);
    attribute.mutable_g()->add_output()->set_name(std::string("of_") + name);
  }
  const Graph graph = import().graph;
  ASSERT_EQ(graph.ops().size(), 1U);
  EXPECT_EQ(graph.ops()[0].type, "Relu");
}

TEST_F(HandMade, AllProblemsAreSaidAtOnce) {
  add("NonZero", {"x"}, {"a"});
  onnx::AttributeProto& attribute = *add("Relu", {"x"}, {"b"}).add_attribute();
  attribute.set_name("negative_slope");
  attribute.set_type(onnx::AttributeProto::FLOAT);
  add("Add", {"a", "b"}, {"c"});
  add_floats("onnx::Conv_7", {4, 4}, 1);
  add("MatMul", {"onnx::Conv_7", "x"}, {"d"});
  add("Sum", {"c", "d"}, {"y"});
  EXPECT_THAT(error(),
              AllOf(HasSubstr("node \"NonZero1\" (\"NonZero\"): this operator is not supported"),
                    HasSubstr("node \"Relu2\" (\"Relu\"): attribute \"negative_slope\" is not supported"),
                    HasSubstr("do_constant_folding=False"), Not(HasSubstr("Add3"))));
}

TEST_F(HandMade, Cycle) {
  add("Add", {"x", "b"}, {"a"});
  add("Relu", {"a"}, {"b"});
  add("Relu", {"b"}, {"y"});
  EXPECT_THAT(error(), HasSubstr("form a cycle"));
}

TEST_F(HandMade, DanglingNames) {
  add("Relu", {"nothing"}, {"y"});
  EXPECT_THAT(error(), HasSubstr("reads \"nothing\", which is no input"));
  model_.mutable_graph()->mutable_output(0)->set_name("nowhere");
  EXPECT_THAT(error(), HasSubstr("output \"nowhere\""));
}

TEST_F(HandMade, EnormousNumbersTakeNoMemory) {
  add_integers("many", {1LL << 60});
  add_integers("large", {1LL << 20, 1LL << 20});
  add("ConstantOfShape", {"many"}, {"a"});
  add("ConstantOfShape", {"large"}, {"b"});
  add("Constant", {}, {"zero"});
  onnx::AttributeProto& value = *model_.mutable_graph()->mutable_node(2)->add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  value.mutable_t()->add_dims(1LL << 60);
  add("Expand", {"x", "many"}, {"c"});
  add("Sum", {"a", "b", "c", "zero"}, {"y"});
  const std::string message = error();
  EXPECT_THAT(message, AllOf(HasSubstr("ConstantOfShape1"), HasSubstr("ConstantOfShape2"),
                             HasSubstr("Constant3"), HasSubstr("Expand4")));
}

TEST_F(HandMade, FunctionsWithoutEnd) {
  onnx::FunctionProto& function = *model_.add_functions();
  function.set_domain("somewhere");
  function.set_name("Again");
  function.add_input("a");
  function.add_output("b");
  for (int i = 0; i < 2; ++i) {
    onnx::NodeProto& node = *function.add_node();
    node.set_domain("somewhere");
    node.set_op_type("Again");
    node.add_input(i == 0 ? "a" : "t");
    node.add_output(i == 0 ? "t" : "b");
  }
  add("Again", {"x"}, {"y"}).set_domain("somewhere");
  EXPECT_THAT(error(), HasSubstr("has no end"));
}

TEST_F(HandMade, OtherVersions) {
  add("Relu", {"x"}, {"y"});
  model_.mutable_opset_import(0)->set_version(11);
  EXPECT_THAT(error(), HasSubstr("has the operator set 11, supported are 13 to 20"));
}

}  // namespace
}  // namespace rookery
