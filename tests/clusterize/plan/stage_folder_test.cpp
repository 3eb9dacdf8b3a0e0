#include <gmock/gmock.h>

#include <functional>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/plan/stage_folder.hpp"
#include "clusterize/plan/trained_file.hpp"
#include "clusterize/planner/make_metadata.hpp"
#include "clusterize/planner/write_plan.hpp"
#include "models/base/files/files.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "tests/support/two_headed_model.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

// A graph in words: inputs, state, ops and outputs with all that matters to a run.
std::string describe(const Graph& graph) {
  std::string text;
  const auto name = [&](ValueId id) { return id == kNoValue ? "-" : graph.value(id).name; };
  const auto line = [&](const char* what, ValueId id) {
    text += fmt::format("{} {} {}\n", what, name(id), graph.value(id).type.to_string());
  };
  for (const ValueId id : graph.inputs()) line("input", id);
  for (const ValueId id : graph.parameters()) line("parameter", id);
  for (const ValueId id : graph.buffers()) line("buffer", id);
  for (const Op& op : graph.ops()) {
    text += fmt::format("{} {}", op.type, op.name);
    for (const ValueId id : op.inputs) text += fmt::format(" {}", name(id));
    text += " ->";
    for (const ValueId id : op.outputs) text += fmt::format(" {}", name(id));
    for (const auto& [key, value] : op.attributes) {
      text += fmt::format(" {}=", key);
      std::visit([&](const auto& v) { text += Json(v).dump(); }, value);
    }
    text += "\n";
  }
  for (const ValueId id : graph.outputs()) text += fmt::format("output {}\n", name(id));
  return text;
}

class StageFiles : public testing::TestWithParam<int> {
 protected:
  void plan(int nodes) {
    planned_ = make_plan(task_, pool_of(equal_nodes(nodes)), {.min_nodes = nodes});
    write_plan(folder(), task_, planned_, state_);
  }
  const std::filesystem::path& folder() const { return scratch_.path(); }
  std::filesystem::path stage_path(int stage) {
    return stage_folder(folder(), make_metadata(task_, planned_, 0, stage));
  }
  LoadedStage load(int stage) {
    const NodeMetadata metadata = read_metadata(folder(), fmt::format("node_{}", stage));
    return read_stage(stage_folder(folder(), metadata), metadata);
  }
  // What reading stage 1 says once `change` was made to one of its files.
  std::string error_after(const char* file, const std::function<void(Json&)>& change) {
    const std::filesystem::path path = stage_path(1) / file;
    const std::string good = read_file(path, 1 << 20);
    Json document = Json::parse(good);
    change(document);
    write_file(path, document.dump());
    std::string message = error_of([&] { load(1); });
    write_file(path, good);
    return message;
  }

  TrainingTask task_ = cnn_task();
  StateDict state_ = initial_state(task_.graph, 42);
  Planned planned_;
  ScratchFolder scratch_;
};

TEST_P(StageFiles, ComeBackAsTheyWere) {
  plan(GetParam());
  StateDict all;
  for (const Stage& stage : planned_.stages[0]) {
    LoadedStage loaded = load(stage.index);
    EXPECT_EQ(loaded.stage.inputs, stage.inputs);
    EXPECT_EQ(loaded.stage.outputs, stage.outputs);
    EXPECT_EQ(loaded.stage.index, stage.index);
    EXPECT_EQ(loaded.stage.count, stage.count);
    EXPECT_EQ(describe(loaded.stage.graph), describe(stage.graph));
    EXPECT_TRUE(loaded.stage.graph.types(7) == stage.graph.types(7));
    const CompileOptions options =
        compile_options(task_.settings, task_.data, stage.index, stage.count, task_.kernels);
    EXPECT_EQ(memory_use(loaded.stage, options).total(), memory_use(stage, options).total());
    all.merge(loaded.state);
  }
  EXPECT_TRUE(same_state(all, state_));
}

INSTANTIATE_TEST_SUITE_P(Cuts, StageFiles, testing::Values(1, 2, 3, 4, 5));

// Every user has the first value of a parameter; who owns it stands in the metadata.
TEST_F(StageFiles, OfSharedParametersComeBackAsTheyWere) {
  task_ = tied_task();
  task_.kernels = choose_kernels(task_.graph, task_.settings.batch_size);
  state_ = initial_state(task_.graph, 42);
  plan(4);
  std::size_t shared = 0;
  for (const Stage& stage : planned_.stages[0]) {
    const LoadedStage loaded = load(stage.index);
    EXPECT_EQ(loaded.stage.shared, stage.shared);
    EXPECT_EQ(describe(loaded.stage.graph), describe(stage.graph));
    const CompileOptions options =
        compile_options(task_.settings, task_.data, stage.index, stage.count, task_.kernels);
    EXPECT_EQ(memory_use(loaded.stage, options).total(), memory_use(stage, options).total());
    for (const SharedParameter& parameter : stage.shared) {
      EXPECT_TRUE(std::ranges::equal(loaded.state.at(parameter.parameter).view().bytes(),
                                     state_.at(parameter.parameter).view().bytes()));
      ++shared;
    }
  }
  EXPECT_GE(shared, 4U);
  NodeMetadata metadata = read_metadata(folder(), "node_0");
  metadata.shared.push_back({.parameter = "stranger", .to = 1});
  EXPECT_THAT(error_of([&] { read_stage(stage_path(0), metadata); }),
              HasSubstr("node_0.json: shared_parameters: 'stranger' is no parameter of submod.onnx"));
}

// With several inputs, outputs and losses, of which one measures what an earlier stage makes.
TEST_F(StageFiles, OfSeveralLossesComeBackAsTheyWere) {
  write_two_headed_data(folder() / "data.safetensors");
  const auto dataset = open_dataset("tensors:data.safetensors", folder());
  TrainingSettings settings;
  settings.loss = two_headed_loss();
  Graph graph = two_headed_model();
  add_loss(graph, settings.loss, target_types(*dataset, settings.loss));
  const StateDict state = initial_state(graph, 42);
  const std::vector<OpId> positions = cut_positions(graph);
  for (const std::vector<OpId>& begins :
       {std::vector<OpId>{0}, {0, positions[3]}, {0, positions[5], positions[7]}, {0, positions[10]}}) {
    const std::vector<Stage> stages = cut(graph, begins);
    PlanWeights weights({stages}, state, "0123456789abcdef");
    for (const Stage& stage : stages) {
      NodeMetadata metadata;
      metadata.node = "node_0";
      metadata.stage = stage.index;
      metadata.stages = stage.count;
      metadata.settings = settings;
      metadata.plan_id = "0123456789abcdef";
      const std::filesystem::path place = folder() / fmt::format("{}_of_{}", stage.index, stage.count);
      write_stage(place, stage, weights);
      const LoadedStage loaded = read_stage(place, metadata);
      EXPECT_EQ(loaded.stage.inputs, stage.inputs);
      EXPECT_EQ(loaded.stage.outputs, stage.outputs);
      EXPECT_EQ(describe(loaded.stage.graph), describe(stage.graph));
    }
  }
}

TEST_F(StageFiles, HoldTheModelsInputsOnTheRoot) {
  plan(3);
  const Json document = read_json(stage_path(0) / "model_inputs.json");
  EXPECT_EQ(document.at("format"), "rookery.model_inputs");
  EXPECT_EQ(document.at("inputs")[0].at("value"), "input");
  EXPECT_EQ(document.at("inputs")[0].at("shape"), Json::parse(R"(["batch", 1, 8, 8])"));
  EXPECT_EQ(document.at("inputs")[1].at("value"), "labels");
  EXPECT_FALSE(std::filesystem::exists(stage_path(1) / "model_inputs.json"));
}

TEST_F(StageFiles, OfAnotherStageOrVersionAreRefused) {
  plan(3);
  EXPECT_THAT(error_after("submod_1_input.json", [](Json& d) { d["stage"] = 0; }),
              HasSubstr("submod_1_input.json: stage 0 of 3, but node_1 is stage 1 of 3"));
  EXPECT_THAT(error_after("submod_1_output.json", [](Json& d) { d["version"] = 9; }), HasSubstr("version 9"));
  EXPECT_THAT(error_after("submod_1_output.json", [](Json& d) { d["format"] = "x"; }),
              HasSubstr("not a rookery.stage_outputs file"));
}

// Each alone, so that none of them is believed because of the others.
TEST_F(StageFiles, OfAnotherPlanAreRefused) {
  plan(3);
  const std::string here = planned_.plan.plan_id;
  const ScratchFolder elsewhere;
  TrainingSettings settings;
  settings.seed = 7;
  const TrainingTask other = cnn_task(settings);
  const Planned foreign = make_plan(other, pool_of(equal_nodes(3)), {.min_nodes = 3});
  ASSERT_NE(foreign.plan.plan_id, here);
  write_plan(elsewhere.path(), other, foreign, initial_state(task_.graph, 7));
  const std::filesystem::path from = stage_folder(elsewhere.path(), make_metadata(other, foreign, 0, 1));
  for (const char* file :
       {"submod_1_input.json", "submod_1_output.json", "submod.onnx", "submod.safetensors"}) {
    const std::filesystem::path path = stage_path(1) / file;
    std::filesystem::rename(path, folder() / "aside");
    std::filesystem::copy_file(from / file, path);
    EXPECT_THAT(error_of([&] { load(1); }),
                testing::AllOf(HasSubstr(path.string()),
                               HasSubstr(fmt::format("belongs to plan {}, but nodes/node_1.json to plan {}",
                                                     foreign.plan.plan_id, here)),
                               HasSubstr("copy node_data from the same clusterize run to every machine")));
    std::filesystem::rename(folder() / "aside", path);
  }
  EXPECT_NO_THROW(load(1));
  EXPECT_EQ(read_json(stage_path(0) / "model_inputs.json").at("plan_id"), here);
}

// As clusterize wrote them before they carried the plan's id.
TEST_F(StageFiles, WithoutAPlanAreRefused) {
  plan(3);
  const auto without = [](Json& d) {
    d["version"] = 1;
    d.erase("plan_id");
  };
  for (const char* file : {"submod_1_input.json", "submod_1_output.json"}) {
    EXPECT_THAT(
        error_after(file, without),
        HasSubstr(std::string(file) + ": does not say which plan it belongs to: run clusterize again"));
  }
  const std::filesystem::path weights = stage_path(1) / "submod.safetensors";
  write_safetensors(weights, read_safetensors(weights).tensors);
  EXPECT_THAT(error_of([&] { load(1); }),
              HasSubstr("submod.safetensors: does not say which plan it belongs to"));
}

TEST_F(StageFiles, WithOtherRoutingThanTheMetadataAreRefused) {
  plan(3);
  EXPECT_THAT(error_after("submod_1_input.json", [](Json& d) { d["inputs"][0]["value"] = "other"; }),
              HasSubstr("submod_1_input.json: the routing is not that of node_1.json"));
  EXPECT_THAT(error_after("submod_1_input.json", [](Json& d) { d["inputs"].clear(); }),
              HasSubstr("the routing"));
  EXPECT_THAT(error_after("submod_1_output.json", [](Json& d) { d["outputs"][0].erase("gradient_from"); }),
              HasSubstr("submod_1_output.json: the routing"));
}

TEST_F(StageFiles, WithOtherTypesThanTheGraphAreRefused) {
  plan(3);
  EXPECT_THAT(
      error_after("submod_1_input.json", [](Json& d) { d["inputs"][0]["shape"][1] = 33; }),
      HasSubstr("submod_1_input.json: 'max_pool_3_out' is f32[batch, 33, 1, 1], in submod.onnx it is"));
  EXPECT_THAT(error_after("submod_1_output.json", [](Json& d) { d["outputs"][0]["dtype"] = "i64"; }),
              HasSubstr("submod_1_output.json: 'bn_2_out' is i64"));
  EXPECT_THAT(error_after("submod_1_output.json", [](Json& d) { d["outputs"][0]["dtype"] = "f16"; }),
              HasSubstr("there is no dtype \"f16\""));
  EXPECT_THAT(error_after("submod_1_input.json", [](Json& d) { d["inputs"][0]["shape"][1] = -7; }),
              HasSubstr("inputs/0/shape"));
  EXPECT_THAT(
      error_after("submod_1_input.json", [](Json& d) { d["inputs"][0]["shape"] = std::vector<int>(9, 1); }),
      HasSubstr("inputs/0/shape"));
}

TEST_F(StageFiles, OfAnotherStagesGraphAreRefused) {
  plan(3);
  std::filesystem::copy_file(stage_path(2) / "submod.onnx", stage_path(1) / "submod.onnx",
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(stage_path(2) / "submod.safetensors", stage_path(1) / "submod.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(error_of([&] { load(1); }), HasSubstr("submod.onnx"));
}

TEST_F(StageFiles, ThatAreMissingAreNamed) {
  plan(3);
  for (const char* file :
       {"submod_1_input.json", "submod_1_output.json", "submod.onnx", "submod.safetensors"}) {
    const std::filesystem::path path = stage_path(1) / file;
    std::filesystem::rename(path, folder() / "aside");
    EXPECT_THAT(error_of([&] { load(1); }), HasSubstr(file));
    std::filesystem::rename(folder() / "aside", path);
  }
  EXPECT_NO_THROW(load(1));
}

TEST_F(StageFiles, TrainedWeightsSayWhereTheyComeFrom) {
  plan(3);
  const NodeMetadata metadata = read_metadata(folder(), "node_1");
  const LoadedStage loaded = load(1);
  write_trained(folder(), metadata, loaded.state, 1700, "abc");
  const SafetensorsFile file = read_trained(trained_path(folder(), metadata));
  EXPECT_TRUE(same_state(file.tensors, loaded.state));
  const Metadata expected{{"format", "rookery.trained"},
                          {"version", "2"},
                          {"plan_id", metadata.plan_id},
                          {"node", "node_1"},
                          {"stage", "1"},
                          {"stages", "3"},
                          {"cluster", "0"},
                          {"step", "1700"},
                          {"model", "cnn_net"},
                          {"data", "digits"},
                          {"seed", "42"},
                          {"train_fraction", "0.6"},
                          {"split", "shuffled"},
                          {"loss", "mse"},
                          {"sample_digest", "abc"}};
  EXPECT_EQ(file.metadata, expected);
}

}  // namespace
}  // namespace rookery
