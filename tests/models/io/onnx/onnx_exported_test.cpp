// What PyTorch's exporters write: files of tests/golden.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <functional>
#include <string>

#include "models/graph/ops/recurrent.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "models/graph/passes/recognize/recognize.hpp"
#include "models/graph/stage.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/io/onnx/onnx.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "tests/models/io/files.hpp"
#include "tests/models/io/onnx/imported.hpp"
#include "tests/models/kernels/run_graph.hpp"
#include "tests/support/repository.hpp"

namespace rookery {
namespace {

using onnx_tests::names_of;
using onnx_tests::run;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

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
  EXPECT_TRUE(model.says_what_is_trained);
  EXPECT_TRUE(model.buffers.contains("scale") && model.buffers.contains("one.running_mean"));
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
  EXPECT_FALSE(model.says_what_is_trained);
  EXPECT_TRUE(model.buffers.contains("scale"));
  EXPECT_FALSE(model.buffers.contains("first.bias"));
  EXPECT_THAT(model.warnings,
              ElementsAre(AllOf(HasSubstr("the file lacks"), HasSubstr("first.weight, unused")),
                          AllOf(HasSubstr("under torch.no_grad() or only once"),
                                HasSubstr("where forward detaches"))));
}

// The older exporter, as for inference: the tied weight has become two.
TEST(Traced, CopiesOfTiedWeightsAreRefused) {
  EXPECT_THAT(refusal("traced"),
              AllOf(HasSubstr("is \"first.weight\" turned, perhaps the same parameter"),
                    HasSubstr("export with training=TrainingMode.PRESERVE, do_constant_folding=False"),
                    HasSubstr("export it with models/rookery_export.py")));
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
  Tensor sum = values[ids.at(0)].clone();
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const auto more = values[ids[i]].as<float>();
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
    expect_near(values[y], expected.tensors.at("y"), "y");
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

TEST(ImportOnnx, NodesThatLackInputsOrOutputs) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "model.onnx";
  const std::string whole = read_file(kGolden / "exported_residual.onnx", kAnySize);
  const auto error_after = [&](int node, const std::function<void(onnx::NodeProto&)>& change) {
    onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(whole));
    change(*model.mutable_graph()->mutable_node(node));
    overwrite(path, model.SerializeAsString());
    try {
      import_onnx(path);
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(whole));
  for (int node = 0; node < model.graph().node_size(); ++node) {
    const onnx::NodeProto& now = model.graph().node(node);
    SCOPED_TRACE(now.name());
    for (int input = 0; input < now.input_size(); ++input)
      error_after(node, [&](auto& changed) { changed.set_input(input, ""); });
    EXPECT_NE(error_after(node, [](auto& changed) { changed.clear_output(); }), "");
    if (now.op_type() != "Relu") continue;
    const auto without_left = [](auto& changed) {
      changed.set_op_type("Add");
      changed.add_input(changed.input(0));
      changed.set_input(0, "");
    };
    EXPECT_THAT(error_after(node, without_left), HasSubstr("lacks its input 0"));
    for (const char* type :
         {"Sum", "Squeeze", "CastLike", "If", "Mod", "ReduceProd", "ReduceL2", "Add", "Expand"}) {
      const auto change = [&](auto& changed) {
        changed.set_op_type(type);
        changed.clear_input();
      };
      EXPECT_NE(error_after(node, change), "") << type;
    }
  }
}

}  // namespace
}  // namespace rookery
