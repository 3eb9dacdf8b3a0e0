// Every operator, forward and differentiated, on every back end that has it, against PyTorch's functions
// and autograd in double precision, over random shapes and attributes (random_cases.hpp).
//
// Environment: ROOKERY_RANDOM_CASES, how many cases of each operator; ROOKERY_RANDOM_SEED; ROOKERY_RANDOM_OP,
// the only operator to compare.
#include <gtest/gtest.h>

#include "models/base/files/json_file.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/rng.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "tests/models/graph/op_form.hpp"
#include "tests/models/io/python_check.hpp"
#include "tests/models/kernels/random_cases.hpp"
#include "tests/models/kernels/run_graph.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery::kernel_tests {
namespace {

std::uint32_t setting(const char* name, std::uint32_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<std::uint32_t>(std::stoul(text));
}

// A graph of one op. An input that has a gradient is an input of the graph, whose gradient somebody
// upstream wants, or a parameter.
struct SingleOp {
  Graph graph;
  GradientRequest request;
  std::map<ValueId, Tensor> given;      // of inputs, parameters, buffers, received gradients
  std::vector<ValueId> differentiable;  // inputs of the op by position, kNoValue where it has no gradient
};

SingleOp single_op(const std::string& type, const RandomCase& test, Draw& draw) {
  SingleOp single;
  Op op{.name = "the_" + type, .type = type, .attributes = test.attributes};
  const bool has_gradient = static_cast<bool>(op_definition(type).differentiate);
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    op.inputs.push_back(kNoValue);
    single.differentiable.push_back(kNoValue);
    if (!test.inputs[i]) continue;
    const Tensor& tensor = *test.inputs[i];
    const std::string name = fmt::format("input.{}", i);
    const bool trains = has_gradient && tensor.type().dtype == DType::kF32 && !test.buffers.contains(i);
    if (test.buffers.contains(i)) {
      op.inputs[i] = single.graph.add_buffer(name, tensor.type());
    } else if (trains && draw.chance(0.5)) {
      op.inputs[i] = single.graph.add_parameter(name, tensor.type());
    } else {
      op.inputs[i] = single.graph.add_input(name, tensor.type());
      if (trains) single.request.inputs.insert(op.inputs[i]);
    }
    if (trains) single.differentiable[i] = op.inputs[i];
    single.given.emplace(op.inputs[i], tensor.clone());
  }
  std::vector<std::string> outputs;
  for (int i = 0; i < test.outputs; ++i) outputs.push_back(fmt::format("output.{}", i));
  const OpId id = single.graph.add_op(std::move(op), outputs);
  const auto types = single.graph.types(1);
  for (const ValueId output : single.graph.op(id).outputs) {
    single.graph.mark_output(output);
    const bool is_float = types[output].dtype == DType::kF32;
    if (is_float && !op_definition(type).is_loss) single.request.received.insert(output);
  }
  return single;
}

Json json_of(const Attributes& attributes) {
  Json object = Json::object();
  for (const auto& [key, value] : attributes) {
    std::visit([&, name = key](const auto& plain) { object[name] = plain; }, value);
  }
  return object;
}

// Cases and results as files for compare_with_torch.py.
class Batch {
 public:
  // Runs a case, in inference and in training form, on every back end.
  void add(const std::string& type, Draw& draw) {
    const RandomOp& random = random_ops().at(type);
    const RandomCase test = random.draw(draw);
    SingleOp single = single_op(type, test, draw);
    const StepContext context{.loss_weight = draw.one_of<float>({1.0F, 0.25F})};
    const std::string name = fmt::format("{}.{}", type, cases_.size());
    Json inputs = Json::array();
    for (std::size_t i = 0; i < test.inputs.size(); ++i) {
      inputs.push_back(test.inputs[i] ? Json(keep(name + fmt::format(".input.{}", i), *test.inputs[i]))
                                      : Json());
    }
    Json one{{"type", type},
             {"name", name},
             {"inputs", inputs},
             {"tolerance", random.tolerance},
             {"loss_weight", context.loss_weight}};
    one["forms"].push_back(
        form(name + ".inference", single.graph, single.given, context, [&](const auto&) { return Json(); }));
    if (op_definition(type).differentiate)
      one["forms"].push_back(training(name + ".training", single, context, draw));
    cases_.push_back(std::move(one));
  }

  void write(const std::filesystem::path& folder) const {
    write_json(folder / "cases.json", OrderedJson(cases_));
    write_safetensors(folder / "cases.safetensors", tensors_);
  }
  std::size_t size() const { return cases_.size(); }

 private:
  std::string keep(const std::string& name, const Tensor& tensor) {
    tensors_.emplace(name, tensor.clone());
    return name;
  }

  // `gradients_of` names the tensors of the gradients among the values of a run.
  template <typename GradientsOf>
  Json form(const std::string& name, const Graph& graph, const std::map<ValueId, Tensor>& given,
            const StepContext& context, GradientsOf gradients_of) {
    Json form{{"attributes", json_of(graph.op(0).attributes)}, {"results", Json::array()}};
    for (const std::string& backend : backends()) {
      const std::vector<Tensor> values = run_graph(graph, given, backend, context);
      if (values.empty()) continue;
      const std::string prefix = fmt::format("{}.{}", name, backend);
      Json outputs = Json::array();
      for (const ValueId id : graph.outputs()) {
        outputs.push_back(keep(fmt::format("{}.{}", prefix, graph.value(id).name), values[id]));
      }
      const auto keep_gradient = [&](ValueId id) {
        return keep(fmt::format("{}.{}", prefix, graph.value(id).name), values[id]);
      };
      form["results"].push_back(
          {{"backend", backend}, {"outputs", outputs}, {"gradients", gradients_of(keep_gradient)}});
    }
    return form;
  }

  Json training(const std::string& name, SingleOp& single, const StepContext& context, Draw& draw) {
    const TrainingGraph training = differentiate(single.graph, single.request);
    Json received = Json::array();
    const auto types = training.graph.types(1);
    for (const ValueId output : single.graph.outputs()) {
      const auto found = training.received_gradients.find(output);
      received.push_back(Json());
      if (found == training.received_gradients.end()) continue;
      Tensor gradient = draw.floats(types[output].shape);
      received.back() = keep(fmt::format("{}.received.{}", name, output), gradient);
      single.given.emplace(found->second, std::move(gradient));
    }
    Json all = form(name, training.graph, single.given, context, [&](const auto& keep_gradient) {
      Json gradients = Json::array();
      for (const ValueId input : single.differentiable) {
        gradients.push_back(Json());
        if (const auto sent = training.sent_gradients.find(input); sent != training.sent_gradients.end())
          gradients.back() = keep_gradient(sent->second);
        const auto uses = training.parameter_gradients.find(input);
        if (uses != training.parameter_gradients.end()) {
          EXPECT_EQ(uses->second.size(), 1U) << name << ": one op is one use";
          gradients.back() = keep_gradient(uses->second.front());
        }
        EXPECT_EQ(gradients.back().is_null(), input == kNoValue) << name << ": gradients";
      }
      return gradients;
    });
    all["received"] = received;
    return all;
  }

  Json cases_ = Json::array();
  StateDict tensors_;
};

TEST(Torch, ComputesTheSame) {
  ROOKERY_NEEDS_PYTHON(kSystemPython, "torch");
  const char* only = std::getenv("ROOKERY_RANDOM_OP");
  Batch batch;
  for (const auto& [type, random] : random_ops()) {
    if (only != nullptr && type != only) continue;
    const auto seed = setting("ROOKERY_RANDOM_SEED", 2024);
    Draw draw(rng_key(seed, type).low);
    for (std::uint32_t i = 0; i < setting("ROOKERY_RANDOM_CASES", 20); ++i) batch.add(type, draw);
  }
  const ScratchFolder folder;
  batch.write(folder.path());
  EXPECT_EQ(run_python(kSystemPython, "../kernels/compare_with_torch.py",
                       fmt::format("'{}'", folder.path().string())),
            0);
}

// In training form and with all gradients, over the same cases.
TEST(Torch, OpsAreAsTheirDescriptionsSay) {
  std::set<std::string> met;
  const auto check = [&](const std::string& type, const RandomCase& test, Draw& draw) {
    const SingleOp single = single_op(type, test, draw);
    const TrainingGraph training = differentiate(single.graph, single.request);
    for (const Op& op : training.graph.ops()) {
      EXPECT_EQ(graph_tests::disagreement(op), "");
      met.insert(op.type);
    }
  };
  for (const auto& [type, random] : random_ops()) {
    Draw draw(rng_key(setting("ROOKERY_RANDOM_SEED", 2024), type).low);
    for (int i = 0; i < 20; ++i) check(type, random.draw(draw), draw);
  }
  Draw draw(7);
  check("Detach", {.inputs = inputs_of(draw.floats({2, 3}))}, draw);
  check("Dropout", {.inputs = inputs_of(draw.floats({2, 3}))}, draw);
  check("ToBlocked", {.inputs = inputs_of(draw.floats({2, 16, 3, 3}))}, draw);
  check("FromBlocked", {.inputs = inputs_of(draw.floats({2, 1, 3, 3, 16}))}, draw);
  for (const std::string& type : operators()) EXPECT_TRUE(met.contains(type)) << type;
}

TEST(Torch, KnowsEveryOperator) {
  for (const std::string& type : operators()) {
    if (!op_definition(type).infer) continue;  // a gradient: compared as part of its operator
    EXPECT_TRUE(random_ops().contains(type) != without_random_cases().contains(type))
        << type << " needs either random cases or a reason why it has none, see random_cases.hpp";
  }
}

}  // namespace
}  // namespace rookery::kernel_tests
