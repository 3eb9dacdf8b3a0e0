// ONNX files as public tools see them.
#include <gtest/gtest.h>

#include "models/graph/stage.hpp"
#include "models/io/onnx/onnx.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "models/runtime/executable.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/models/io/files.hpp"
#include "tests/models/io/onnx/onnx_models.hpp"
#include "tests/models/io/python_check.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kSamples = 5;

struct Case {
  std::string name;
  Graph (*build)();
};
void PrintTo(const Case& what, std::ostream* out) {
  *out << what.name;
}

// Writes whole.onnx and stage_0.onnx, stage_1.onnx, … of three stages as a plan writes them.
class OnnxInPython : public testing::TestWithParam<Case> {
 protected:
  OnnxInPython() : model_(GetParam().build()), state_(trained_state(model_)) {
    write_onnx(folder_.path() / "whole.onnx", "whole.safetensors", model_, state_);
    files_ = file("whole.onnx");
    Graph graph = GetParam().build();
    add_loss(graph, "cross_entropy");
    const std::vector<OpId> cuts = cut_positions(graph);
    for (const Stage& stage :
         cut(graph, std::vector<OpId>{0, cuts[cuts.size() / 3], cuts[cuts.size() - 2]})) {
      StateDict of_stage;
      for (const auto& [name, tensor] : state_) {
        if (stage.graph.find(name)) of_stage.emplace(name, tensor.clone());
      }
      const std::string name = fmt::format("stage_{}", stage.index);
      write_onnx(folder_.path() / (name + ".onnx"), name + ".safetensors", stage.graph, of_stage);
      files_ += fmt::format(" {}", file(name + ".onnx"));
    }
  }

  std::string file(const std::string& name) const {
    return fmt::format("'{}'", (folder_.path() / name).string());
  }

  // Random inputs, and the outputs that the runtime computes of them.
  void write_inputs_and_outputs() {
    const std::vector<Stage> whole = cut(model_, std::vector<OpId>{0});
    const CompileOptions options{.inference_sizes = {kSamples}, .kernels = choose_kernels(model_, kSamples)};
    Executable executable(whole[0], options, state_);
    const MicroBatch batch{.mode = Mode::kInference, .size = kSamples};
    const TensorView input = executable.input(0, batch);
    CounterRng rng(rng_key(3, "inputs"), 0);
    for (float& element : input.as<float>()) element = 2.0F * rng.next_float() - 0.5F;
    StateDict inputs;
    copy(input, inputs.emplace(whole[0].inputs[0].value, Tensor(input.type)).first->second.view());
    executable.forward(batch);
    StateDict outputs;
    const ConstTensorView output = executable.output(0, batch);
    copy(output, outputs.emplace(whole[0].outputs[0].value, Tensor(output.type)).first->second.view());
    write_safetensors(folder_.path() / "inputs.safetensors", inputs);
    write_safetensors(folder_.path() / "outputs.safetensors", outputs);
  }

  ScratchFolder folder_;
  Graph model_;
  StateDict state_;
  std::string files_;  // quoted paths, the whole model first
};

TEST_P(OnnxInPython, PassesTheChecker) {
  ROOKERY_NEEDS_PYTHON(kSystemPython, "onnx");
  EXPECT_EQ(run_python(kSystemPython, "check_files.py", "onnx " + files_), 0);
}

// The interpreter named by $ROOKERY_ONNX_PYTHON may have a runtime where the system's has PyTorch alone.
TEST_P(OnnxInPython, StagesReproduceTheWholeModel) {
  const char* chosen = std::getenv("ROOKERY_ONNX_PYTHON");
  const std::string python = chosen != nullptr ? chosen : kSystemPython;
  if (!python_has(python, "onnxruntime") && !python_has(python, "onnx.reference")) {
    ROOKERY_NEEDS_PYTHON(python, "onnx, torch");
  }
  write_inputs_and_outputs();
  EXPECT_EQ(
      run_python(python, "run_stages.py",
                 fmt::format("{} {} {}", file("inputs.safetensors"), file("outputs.safetensors"), files_)),
      0);
}

INSTANTIATE_TEST_SUITE_P(Models, OnnxInPython,
                         testing::Values(Case{"Small", small_model}, Case{"Elementwise", elementwise_model},
                                         Case{"Moving", moving_model}, Case{"Windows", window_model},
                                         Case{"Series", series_model}, Case{"Transformer", transformer_model},
                                         Case{"Heads", heads_model}, Case{"Recurrent", recurrent_model},
                                         Case{"CnnNet", cnn_net}, Case{"MnistMlp", mnist_mlp}),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace rookery
