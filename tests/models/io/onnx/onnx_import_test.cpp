// Files of other origin: what PyTorch's exporters write, and what nobody should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <functional>

#include "models/graph/ops/recurrent.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "models/graph/passes/recognize/recognize.hpp"
#include "models/graph/stage.hpp"
#include "models/io/onnx/onnx.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "models/runtime/executable.hpp"
#include "tests/models/io/files.hpp"
#include "tests/models/kernels/run_graph.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::filesystem::path kGolden = std::filesystem::path(ROOKERY_SOURCE_DIR) / "tests" / "golden";

std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> names;
  for (const ValueId id : ids) names.push_back(graph.value(id).name);
  return names;
}

// What the first output is for this input.
std::vector<float> run(const Graph& graph, const StateDict& state, ConstTensorView x) {
  const std::vector<Stage> whole = cut(graph, std::vector<OpId>{0});
  const std::int64_t samples = x.shape()[0];
  const CompileOptions options{.inference_sizes = {samples}, .kernels = choose_kernels(graph, samples)};
  Executable executable(whole[0], options, state);
  const MicroBatch batch{.mode = Mode::kInference, .size = samples};
  copy(x, executable.input(0, batch));
  executable.forward(batch);
  const auto made = executable.output(0, batch).as<float>();
  return {made.begin(), made.end()};
}

class Exported : public testing::TestWithParam<const char*> {};

// As tests/golden/make_exported_models.py has made them.
TEST_P(Exported, ComputesWhatPyTorchDoes) {
  const OnnxModel model = import_onnx(kGolden / (std::string(GetParam()) + ".onnx"));
  const SafetensorsFile expected = read_safetensors(kGolden / (std::string(GetParam()) + ".safetensors"));
  const StateDict state = initial_state(model.graph, 1, [&] {
    StateDict copies;
    for (const auto& [name, tensor] : model.state) copies.emplace(name, tensor.clone());
    return copies;
  }());
  check_state(model.graph, state);
  for (const Graph& graph : {model.graph, recognize_linear(recognize_layers(model.graph))}) {
    const std::vector<float> y = run(graph, state, expected.tensors.at("x").view());
    const auto wanted = expected.tensors.at("y").as<float>();
    ASSERT_EQ(y.size(), wanted.size());
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], wanted[i], 1e-5) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Exported, testing::Values("exported_encoder", "exported_residual"));

// The message that a file of tests/golden/make_optimized_models.py is refused with.
std::string refusal(const std::string& name) {
  try {
    import_onnx(kGolden / (name + ".onnx"));
  } catch (const DataError& error) {
    return error.what();
  }
  return "was imported";
}

TEST(OptimizedByTheExporter, FoldedBatchNormIsRefusedByName) {
  EXPECT_THAT(
      refusal("optimized_folded"),
      AllOf(HasSubstr("export with optimize=False"),
            HasSubstr("BatchNorm \"body.1\" was folded into the layer before it, under the name of its "
                      "weight \"body.0.weight\"")));
}

TEST(OptimizedByTheExporter, MergedParametersAreRefusedByName) {
  EXPECT_THAT(refusal("optimized_merged"),
              AllOf(HasSubstr("export with optimize=False"),
                    HasSubstr("\"second.weight\" was merged with \"first.weight\""),
                    HasSubstr("\"second.bias\" was merged with \"first.bias\"")));
}

TEST(OptimizedByTheExporter, EqualLayersAreRefusedByName) {
  EXPECT_THAT(refusal("optimized_parallel"), AllOf(HasSubstr("export with optimize=False"),
                                                   HasSubstr("\"gate.weight\" is not in the file")));
}

TEST(OptimizedByTheExporter, ComputedWeightsAreRefusedByName) {
  EXPECT_THAT(refusal("optimized_computed"),
              AllOf(HasSubstr("export with optimize=False"), HasSubstr("\"kinds.weight\" is not in the file"),
                    HasSubstr("\"embedding\" is no parameter of the module")));
}

// The conversion to an older operator set drops what the exporter wrote of the module.
TEST(OptimizedByTheExporter, FilesThatDoNotSayAreRefused) {
  EXPECT_THAT(refusal("optimized_merged_17"),
              AllOf(HasSubstr("export with optimize=False"), HasSubstr("does not say")));
}

TEST(OptimizedByTheExporter, FilesThatWereNotAreTaken) {
  EXPECT_THAT(names_of(import_onnx(kGolden / "kept_folded.onnx").graph,
                       import_onnx(kGolden / "kept_folded.onnx").graph.parameters()),
              testing::UnorderedElementsAre("body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias",
                                            "fc.weight", "fc.bias"));
  EXPECT_THAT(names_of(import_onnx(kGolden / "kept_tied.onnx").graph,
                       import_onnx(kGolden / "kept_tied.onnx").graph.parameters()),
              testing::UnorderedElementsAre("back.weight", "there.bias"));
}

// What a value of the graph is: "parameter", "buffer", "fixed", or nothing.
std::string kind_of(const Graph& graph, const std::string& name) {
  const auto id = graph.find(name);
  if (!id) return {};
  const Value& value = graph.value(*id);
  if (value.kind == ValueKind::kParameter) return "parameter";
  if (value.kind == ValueKind::kBuffer) return value.fixed ? "fixed" : "buffer";
  return value.kind == ValueKind::kConstant ? "constant" : "activation";
}

const Op* find_op(const Graph& graph, const std::string& type) {
  const auto found = std::ranges::find(graph.ops(), type, &Op::type);
  return found == graph.ops().end() ? nullptr : &*found;
}

// What the module of tests/golden/make_optimized_models.py hides, as models/rookery_export.py tells it.
TEST(Described, ModulesAreAsTheyWere) {
  const OnnxModel model = import_onnx(kGolden / "described.onnx");
  const Graph& graph = model.graph;
  EXPECT_EQ(kind_of(graph, "first.weight"), "parameter");
  EXPECT_EQ(kind_of(graph, "first.bias"), "fixed");
  EXPECT_EQ(kind_of(graph, "scale"), "fixed");
  EXPECT_EQ(kind_of(graph, "one.running_mean"), "fixed");
  EXPECT_EQ(kind_of(graph, "two.running_mean"), "buffer");
  ASSERT_NE(find_op(graph, "Detach"), nullptr);
  ASSERT_NE(find_op(graph, "Gather"), nullptr);
  EXPECT_EQ(find_op(graph, "Gather")->integer("padding_idx", -1), 2);
  ASSERT_TRUE(model.module);
  EXPECT_THAT(model.module->tied, ElementsAre(testing::Pair("second.weight", "first.weight")));
  EXPECT_EQ(model.module->state_dict.front(), "unused");
  EXPECT_TRUE(model.extras.contains("unused") && model.extras.contains("order"));
  EXPECT_FALSE(model.extras.contains("shift"));
  EXPECT_THAT(model.warnings, testing::IsEmpty());
}

// The same by PyTorch's newer exporter, whose metadata has most of it.
TEST(KeptByTheExporter, OperationsAndBuffersAreUndone) {
  const OnnxModel model = import_onnx(kGolden / "kept_traps.onnx");
  const Graph& graph = model.graph;
  EXPECT_EQ(kind_of(graph, "second.weight"), "parameter");
  EXPECT_EQ(kind_of(graph, "scale"), "fixed");
  EXPECT_EQ(kind_of(graph, "shift"), "");
  EXPECT_EQ(kind_of(graph, "one.running_mean"), "fixed");
  EXPECT_EQ(kind_of(graph, "two.running_mean"), "buffer");
  ASSERT_NE(find_op(graph, "Detach"), nullptr);
  ASSERT_NE(find_op(graph, "Gather"), nullptr);
  EXPECT_EQ(find_op(graph, "Gather")->integer("padding_idx", -1), 2);
  EXPECT_TRUE(model.extras.contains("order"));
  EXPECT_THAT(model.warnings,
              testing::Contains(AllOf(HasSubstr("the file lacks"), HasSubstr("first.weight, unused"))));
}

// The older exporter, as for inference: the tied weight has become two.
TEST(Traced, CopiesOfTiedWeightsAreRefused) {
  EXPECT_THAT(refusal("traced"),
              AllOf(HasSubstr("is \"first.weight\" turned, perhaps the same parameter"),
                    HasSubstr("export with training=TrainingMode.TRAINING, do_constant_folding=False")));
}

class Trained : public testing::TestWithParam<const char*> {};

void expect_near(const Tensor& actual, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.type(), expected.type()) << what;
  const auto a = actual.as<float>();
  const auto b = expected.as<float>();
  float scale = 0.1F;
  for (const float each : b) scale = std::max(scale, std::abs(each));
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5F * scale) << what << " at " << i;
}

Tensor sum_of(const std::vector<ValueId>& ids, const std::vector<Tensor>& values) {
  Tensor sum = values[static_cast<std::size_t>(ids.at(0))].clone();
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const auto more = values[static_cast<std::size_t>(ids[i])].as<float>();
    for (std::size_t k = 0; k < more.size(); ++k) sum.as<float>()[k] += more[k];
  }
  return sum;
}

// As tests/golden/make_exported_operators.py has made them: the same outputs, and for every parameter of the
// module, by its name, the same gradient.
TEST_P(Trained, ComputesWhatPyTorchDoes) {
  const OnnxModel model = import_onnx(kGolden / (std::string(GetParam()) + ".onnx"));
  const SafetensorsFile expected = read_safetensors(kGolden / (std::string(GetParam()) + ".safetensors"));
  for (const Graph& graph :
       {model.graph, recognize_recurrent(recognize_linear(recognize_layers(model.graph)))}) {
    const ValueId y = graph.outputs().at(0);
    const TrainingGraph training = differentiate(graph, {.inputs = {}, .received = {y}});
    std::map<ValueId, Tensor> given;
    given.emplace(graph.inputs().at(0), expected.tensors.at("x").clone());
    given.emplace(training.received_gradients.at(y), expected.tensors.at("received").clone());
    for (const ValueId id : graph.parameters())
      given.emplace(id, model.state.at(graph.value(id).name).clone());
    const std::int64_t batch = expected.tensors.at("x").shape()[0];
    const auto values = kernel_tests::run_graph(training.graph, given, "eigen", {}, batch);
    expect_near(values[static_cast<std::size_t>(y)], expected.tensors.at("y"), "y");
    std::size_t gradients = 0;
    for (const auto& [name, tensor] : expected.tensors) {
      if (!name.starts_with("gradient.")) continue;
      ++gradients;
      const auto parameter = graph.find(name.substr(name.find('.') + 1));
      ASSERT_TRUE(parameter.has_value()) << name;
      expect_near(sum_of(training.parameter_gradients.at(*parameter), values), tensor, name);
    }
    EXPECT_EQ(graph.parameters().size(), gradients);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Trained,
                         testing::Values("exported_operators_script", "exported_operators_dynamo",
                                         "exported_recurrent_script", "exported_recurrent_dynamo"));

// Layers read the parameters, and nothing is left of what put them into ONNX's order.
TEST(RecognizeRecurrent, LayersReadTheParameters) {
  for (const char* name : {"exported_recurrent_script", "exported_recurrent_dynamo"}) {
    const Graph graph = recognize_recurrent(import_onnx(kGolden / (std::string(name) + ".onnx")).graph);
    int layers = 0;
    for (const Op& op : graph.ops()) {
      if (gate_orders(op) == nullptr) continue;
      ++layers;
      EXPECT_EQ(graph.value(op.inputs[kRecurrentW]).kind, ValueKind::kParameter) << name << ", " << op.name;
      EXPECT_EQ(graph.value(op.inputs[kRecurrentR]).kind, ValueKind::kParameter) << name << ", " << op.name;
    }
    EXPECT_EQ(layers,
              name == std::string("exported_recurrent_script") ? 9 : 6);  // 6: RNN comes in single ops
    for (const ValueId id : graph.parameters()) {
      if (!graph.value(id).name.starts_with("lstm.") && !graph.value(id).name.starts_with("gru.")) continue;
      const auto reads = std::ranges::count_if(
          graph.ops(), [&](const Op& op) { return std::ranges::count(op.inputs, id) > 0; });
      EXPECT_EQ(reads, 1) << name << ", " << graph.value(id).name;
    }
  }
}

// Between the layers of one module: layers of all directions, then the next.
TEST(RecognizeRecurrent, AStageMayBeginBetweenLayers) {
  for (const char* name : {"exported_recurrent_script", "exported_recurrent_dynamo"}) {
    const Graph graph = recognize_recurrent(import_onnx(kGolden / (std::string(name) + ".onnx")).graph);
    std::vector<OpId> layers;
    for (OpId id = 0; id < std::ssize(graph.ops()); ++id) {
      if (graph.op(id).type == "LSTM") layers.push_back(id);
    }
    ASSERT_EQ(layers.size(), 4U);
    const auto between = [&](OpId begin) { return begin > layers[1] && begin <= layers[2]; };
    EXPECT_TRUE(std::ranges::any_of(cut_positions(graph), between)) << name;
  }
}

TEST(ImportOnnx, KeepsNamesAndTrainingForms) {
  const Graph graph = import_onnx(kGolden / "exported_residual.onnx").graph;
  EXPECT_THAT(names_of(graph, graph.parameters()),
              testing::UnorderedElementsAre("stem.0.weight", "stem.1.weight", "stem.1.bias",
                                            "depthwise.weight", "depthwise.bias", "norm.weight", "norm.bias",
                                            "up.weight", "up.bias", "fc.weight", "fc.bias"));
  EXPECT_THAT(names_of(graph, graph.buffers()),
              ElementsAre("stem.1.running_mean", "stem.1.running_var", "stem.1.num_batches_tracked"));
  EXPECT_EQ(graph.value(graph.inputs()[0]).type, (TensorType{DType::kF32, {kBatch, 3, 8, 8}}));
  const auto count = [&](const std::string& type) {
    return std::ranges::count(graph.ops(), type, &Op::type);
  };
  EXPECT_EQ(count("BatchNormalization"), 1);
  EXPECT_EQ(count("Dropout"), 1);
}

TEST(RecognizeLayers, GroupNormIsOneOp) {
  const Graph graph = recognize_layers(import_onnx(kGolden / "exported_residual.onnx").graph);
  EXPECT_EQ(std::ranges::count(graph.ops(), "GroupNormalization", &Op::type), 1);
  EXPECT_EQ(std::ranges::count(graph.ops(), "InstanceNormalization", &Op::type), 0);
  EXPECT_EQ(std::ranges::count(graph.ops(), "Unsqueeze", &Op::type), 0);
}

TEST(RecognizeLinear, LinearLayersAreGemms) {
  const Graph graph = recognize_linear(import_onnx(kGolden / "exported_encoder.onnx").graph);
  const auto count = [&](const std::string& type) {
    return std::ranges::count(graph.ops(), type, &Op::type);
  };
  EXPECT_EQ(count("Gemm"), 9);    // four in every layer, and the head
  EXPECT_EQ(count("MatMul"), 4);  // scores and sums of values
}

// A small model, put together by hand: x [batch, 4], all of whose nodes a test adds.
class HandMade : public testing::Test {
 protected:
  HandMade() {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(17);
    onnx::GraphProto& graph = *model_.mutable_graph();
    add_type(*graph.add_input(), "x", {-1, 4});
    add_type(*graph.add_output(), "y", {-1, 4});
  }

  static void add_type(onnx::ValueInfoProto& info, const std::string& name,
                       const std::vector<std::int64_t>& dims) {
    info.set_name(name);
    auto& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t dim : dims) {
      auto& out = *tensor.mutable_shape()->add_dim();
      dim < 0 ? out.set_dim_param("n") : out.set_dim_value(dim);
    }
  }

  onnx::NodeProto& add(const std::string& type, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs) {
    onnx::NodeProto& node = *model_.mutable_graph()->add_node();
    node.set_op_type(type);
    node.set_name(type + std::to_string(model_.graph().node_size()));
    for (const std::string& input : inputs) node.add_input(input);
    for (const std::string& output : outputs) node.add_output(output);
    return node;
  }

  static void set_integer(onnx::NodeProto& node, const std::string& key, std::int64_t number) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.name() == key) return attribute.set_i(number);
    }
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(key);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(number);
  }

  static void set_text(onnx::NodeProto& node, const std::string& key, const std::string& text) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(key);
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(text);
  }

  void add_integers(const std::string& name, const std::vector<std::int64_t>& numbers) {
    onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_dims(std::ssize(numbers));
    tensor.mutable_int64_data()->Assign(numbers.begin(), numbers.end());
  }

  void add_floats(const std::string& name, const std::vector<std::int64_t>& dims, float number) {
    onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) {
      tensor.add_dims(dim);
      count *= dim;
    }
    for (std::int64_t i = 0; i < count; ++i) tensor.add_float_data(number);
  }

  OnnxModel import() {
    overwrite(path_, model_.SerializeAsString());
    return import_onnx(path_);
  }
  std::string error() {
    return data_error([&] { import(); });
  }

  onnx::ModelProto model_;
  ScratchFolder folder_;
  std::filesystem::path path_ = folder_.path() / "model.onnx";
};

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
  EXPECT_EQ(graph.types(5)[static_cast<std::size_t>(graph.outputs()[0])].shape, (Shape{5, 3}));
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

TEST_F(HandMade, RecurrentLayersThatAreNotSupportedAreRefused) {
  model_.mutable_graph()->clear_output();
  add_type(*model_.mutable_graph()->add_output(), "y", {-1, 3});
  const auto layer = [&](const std::string& type, std::int64_t gates, const std::vector<std::string>& more) {
    model_.mutable_graph()->clear_node();
    model_.mutable_graph()->clear_initializer();
    add_integers("first", {0});
    add_floats("rnn.w", {1, gates * 3, 4}, 0.1F);
    add_floats("rnn.r", {1, gates * 3, 3}, 0.1F);
    add("Unsqueeze", {"x", "first"}, {"steps"});
    std::vector<std::string> inputs{"steps", "rnn.w", "rnn.r"};
    inputs.insert(inputs.end(), more.begin(), more.end());
    onnx::NodeProto& node = add(type, inputs, {"", "last"});
    set_integer(node, "hidden_size", 3);
    add("Squeeze", {"last", "first"}, {"y"});
    return &node;
  };
  layer("GRU", 3, {});
  EXPECT_EQ(import().graph.parameters().size(), 2U);
  const auto refused = [&](onnx::NodeProto*, const std::string& because) {
    EXPECT_THAT(error(), HasSubstr(because));
  };
  onnx::NodeProto* node = layer("GRU", 3, {});
  set_integer(*node, "layout", 1);
  refused(node, "attribute \"layout\" is not supported");
  node = layer("GRU", 3, {});
  set_text(*node, "direction", "sideways");
  refused(node, "no direction 'sideways'");
  node = layer("LSTM", 4, {});
  onnx::AttributeProto& functions = *node->add_attribute();
  functions.set_name("activations");
  functions.set_type(onnx::AttributeProto::STRINGS);
  for (const char* function : {"HardSigmoid", "Tanh", "Tanh"}) functions.add_strings(function);
  refused(node, "its functions are HardSigmoid,Tanh,Tanh");
  node = layer("LSTM", 4, {"", "lengths"});
  add_integers("lengths", {1, 1});
  refused(node, "sequences of different lengths");
  node = layer("LSTM", 4, {"", "", "", "", "rnn.p"});
  add_floats("rnn.p", {1, 9}, 0.1F);
  refused(node, "has peepholes");
  node = layer("LSTM", 3, {});
  refused(node, "its input 1 is");
  set_text(*layer("RNN", 1, {}), "direction", "bidirectional");
  refused(node, "not of 2 directions");
}

TEST_F(HandMade, RecurrentLayersNeedTheirInputs) {
  add_floats("rnn.w", {1, 12, 4}, 0.1F);
  add_floats("rnn.flat", {12}, 0.1F);
  add_integers("first", {0});
  add("Unsqueeze", {"x", "first"}, {"steps"});
  onnx::NodeProto& node = add("LSTM", {"steps"}, {"y"});
  const auto expect_refused = [&](const std::vector<std::string>& inputs, const std::string& because) {
    node.mutable_input()->Clear();
    for (const std::string& input : inputs) node.add_input(input);
    EXPECT_THAT(error(), HasSubstr(because));
  };
  expect_refused({}, "lacks its input 0");
  expect_refused({"steps"}, "lacks its input 1");
  expect_refused({"steps", "rnn.w"}, "lacks its input 2");
  expect_refused({"x", "rnn.w", "rnn.w"}, "its input 0 is f32[2, 4], not of rank 3");
  expect_refused({"steps", "rnn.w", "rnn.flat"}, "its input 2 is f32[12], not of rank 3");
  expect_refused({"steps", "rnn.w", "rnn.w", "rnn.flat"}, "its input 3 is f32[12], not of rank 2");
}

// What the exporter has folded has lost its names, and with them the way back into the module.
TEST_F(HandMade, FoldedRecurrentWeightsAreRefused) {
  model_.mutable_graph()->clear_output();
  add_type(*model_.mutable_graph()->add_output(), "y", {-1, 3});
  add_integers("first", {0});
  add_floats("onnx::LSTM_103", {1, 12, 4}, 0.1F);
  add_floats("onnx::LSTM_104", {1, 12, 3}, 0.1F);
  add("Unsqueeze", {"x", "first"}, {"steps"});
  add("LSTM", {"steps", "onnx::LSTM_103", "onnx::LSTM_104"}, {"", "last"});
  add("Squeeze", {"last", "first"}, {"y"});
  EXPECT_THAT(error(), AllOf(HasSubstr("\"onnx::LSTM_103\" has lost the name"),
                             HasSubstr("do_constant_folding=False")));
}

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

TEST_F(HandMade, WeightsThatAreAbsentAreDrawn) {
  add_type(*model_.mutable_graph()->add_input(), "fc.weight", {4, 4});
  add_type(*model_.mutable_graph()->add_input(), "fc.bias", {4});
  onnx::AttributeProto& turned = *add("Gemm", {"x", "fc.weight", "fc.bias"}, {"y"}).add_attribute();
  turned.set_name("transB");
  turned.set_type(onnx::AttributeProto::INT);
  turned.set_i(1);
  const OnnxModel model = import();
  EXPECT_TRUE(model.state.empty());
  for (const ValueId id : model.graph.parameters()) {
    EXPECT_EQ(model.graph.value(id).initializer.kind, Initializer::Kind::kUniform);
    EXPECT_EQ(model.graph.value(id).initializer.bound, 0.5F);
  }
}

TEST_F(HandMade, RecurrentWeightsThatAreAbsentAreDrawn) {
  model_.mutable_graph()->clear_output();
  add_type(*model_.mutable_graph()->add_output(), "y", {-1, 16});
  add_type(*model_.mutable_graph()->add_input(), "weight_ih_l0", {16, 4});
  add_type(*model_.mutable_graph()->add_input(), "weight_hh_l0", {16, 16});
  add_integers("first", {0});
  add("Unsqueeze", {"x", "first"}, {"steps"});
  add("Unsqueeze", {"weight_ih_l0", "first"}, {"w"});
  add("Unsqueeze", {"weight_hh_l0", "first"}, {"r"});
  add("RNN", {"steps", "w", "r"}, {"", "last"});
  add("Squeeze", {"last", "first"}, {"y"});
  const OnnxModel model = import();
  EXPECT_EQ(model.graph.parameters().size(), 2U);
  for (const ValueId id : model.graph.parameters()) {
    EXPECT_EQ(model.graph.value(id).initializer.kind, Initializer::Kind::kUniform);
    EXPECT_EQ(model.graph.value(id).initializer.bound, 0.25F);
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

// Whatever becomes of a file: a model, or a DataError.
TEST(ImportOnnx, BrokenFiles) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "model.onnx";
  const std::string whole = read_file(kGolden / "exported_residual.onnx", kAnySize);
  const auto attempt = [&](const std::string& bytes) {
    overwrite(path, bytes);
    try {
      import_onnx(path);
    } catch (const DataError&) {
    }
  };
  for (std::size_t length = 0; length < whole.size(); length += length < 1200 ? 1 : 13)
    attempt(whole.substr(0, length));
  for (std::size_t i = 0; i < whole.size(); i += 3) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i / 3 % 8)));
    attempt(flipped);
  }
}

}  // namespace
}  // namespace rookery
