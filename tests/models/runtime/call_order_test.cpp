// The order of calls that executable.hpp promises to check: each call out of turn is a bug that is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "models/base/check.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/runtime/executable.hpp"
#include "tests/models/runtime/test_processor.hpp"
#include "tests/models/runtime/trained_models.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kSize = 3;

// The call fails as a bug whose message says this.
template <typename Call>
void expect_bug(Call call, const std::string& message) {
  try {
    call();
    ADD_FAILURE() << "nothing was refused: " << message;
  } catch (const BugError& error) {
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

// As in CompileOptions.
struct InFlight {
  int slots = 1;
  int micro_batches = 1;
  bool stashes_weights = false;
  bool delays_weights = false;
  bool updates_ahead = false;
  bool updates_in_backward = false;
};

Executable compile(const Graph& graph, const InFlight& in_flight, const std::vector<OpId>& begins = {0},
                   std::size_t stage = 0) {
  CompileOptions options;
  options.slots = in_flight.slots;
  options.micro_batches = in_flight.micro_batches;
  options.stashes_weights = in_flight.stashes_weights;
  options.delays_weights = in_flight.delays_weights;
  options.updates_ahead = in_flight.updates_ahead;
  options.updates_in_backward = in_flight.updates_in_backward;
  options.training_sizes = {kSize};
  options.inference_sizes = {kSize};
  options.kernels = choose_kernels(graph, kSize);
  options.processor = &test_processor();
  const std::vector<Stage> stages = cut(graph, begins);
  StateDict state;
  for (auto& [name, tensor] : initial_state(graph, 1)) {
    if (stages[stage].graph.find(name)) state.emplace(name, std::move(tensor));
  }
  return {stages[stage], options, std::move(state)};
}

MicroBatch micro_batch(std::int64_t step, int index = 0, int slot = 0) {
  return {.step = step, .index = index, .size = kSize, .slot = slot};
}

MicroBatch inference() {
  return {.mode = Mode::kInference, .size = kSize};
}

// Runs on zeros: working memory holds anything.
void forward(Executable& executable, const MicroBatch& batch) {
  for (std::size_t i = 0; i < executable.stage().inputs.size(); ++i)
    write_from_host(executable.input(i, batch),
                    [](TensorView host) { std::ranges::fill(host.bytes(), std::byte{0}); });
  executable.forward(batch);
}

void backward(Executable& executable, const MicroBatch& batch) {
  executable.backward_inputs(batch);
  executable.backward_weights(batch);
}

void step(Executable& executable, std::int64_t number) {
  forward(executable, micro_batch(number));
  backward(executable, micro_batch(number));
  executable.update(number, 0);
}

// Adam corrects its means by how many updates they have.
TEST(Executable, AnOptimizerThatBeginsLaterMakesTheFirstUpdateThen) {
  const auto after = [](std::int64_t number, std::int64_t begins) {
    Executable executable = compile(elementwise_model(), {});
    executable.begin_optimizer(begins);
    forward(executable, micro_batch(number));
    backward(executable, micro_batch(number));
    executable.update(number, 0.1);
    return executable.state();
  };
  const StateDict first = after(0, 0);
  for (const auto& [name, tensor] : after(5000, 5000))
    EXPECT_TRUE(std::ranges::equal(tensor.view().bytes(), first.at(name).view().bytes())) << name;
  bool differs = false;
  for (const auto& [name, tensor] : after(5000, 0))
    differs = differs || !std::ranges::equal(tensor.view().bytes(), first.at(name).view().bytes());
  EXPECT_TRUE(differs);
}

TEST(CallOrder, BackwardComesAfterItsForward) {
  Executable executable = compile(branching_model(), {});
  expect_bug([&] { executable.backward_inputs(micro_batch(0)); },
             "backward_inputs() of micro-batch 0 of step 0, which is not in flight in slot 0");
  forward(executable, micro_batch(0));
  expect_bug([&] { executable.backward_inputs(micro_batch(1)); }, "which is not in flight");
  backward(executable, micro_batch(0));
  expect_bug([&] { executable.backward_inputs(micro_batch(0)); }, "which is not in flight");
}

TEST(CallOrder, WeightsComeDirectlyAfterInputs) {
  Executable executable = compile(branching_model(), {.slots = 2, .micro_batches = 2});
  forward(executable, micro_batch(0, 0, 0));
  forward(executable, micro_batch(0, 1, 1));
  expect_bug([&] { executable.backward_weights(micro_batch(0, 0, 0)); },
             "backward_weights() of micro-batch 0 of step 0 before its backward_inputs()");
  executable.backward_inputs(micro_batch(0, 0, 0));
  expect_bug([&] { executable.backward_weights(micro_batch(0, 1, 1)); }, "before its backward_inputs()");
  expect_bug([&] { executable.backward_inputs(micro_batch(0, 1, 1)); },
             "before backward_weights() of micro-batch 0 of step 0");
  expect_bug([&] { executable.backward_inputs(micro_batch(0, 0, 0)); }, "before backward_weights()");
  executable.backward_weights(micro_batch(0, 0, 0));
  expect_bug([&] { executable.backward_weights(micro_batch(0, 0, 0)); }, "which is not in flight");
}

TEST(CallOrder, AForwardDoesNotComeBetweenTheBackwardPhases) {
  Executable executable = compile(branching_model(), {.slots = 2, .micro_batches = 2});
  forward(executable, micro_batch(0, 0, 0));
  executable.backward_inputs(micro_batch(0, 0, 0));
  expect_bug([&] { executable.forward(micro_batch(0, 1, 1)); },
             "micro-batch 1 of step 0 before backward_weights() of micro-batch 0 of step 0");
  expect_bug([&] { executable.input(0, micro_batch(0, 1, 1)); }, "before backward_weights()");
}

TEST(CallOrder, DelayedWeightsComeInTheOrderOfInputs) {
  Executable executable =
      compile(branching_model(), {.slots = 3, .micro_batches = 2, .delays_weights = true});
  forward(executable, micro_batch(0, 0, 0));
  forward(executable, micro_batch(0, 1, 1));
  executable.backward_inputs(micro_batch(0, 0, 0));
  forward(executable, micro_batch(0, 2, 2));
  executable.backward_inputs(micro_batch(0, 1, 1));
  expect_bug([&] { executable.backward_weights(micro_batch(0, 1, 1)); },
             "backward_weights() of micro-batch 1 of step 0 before that of micro-batch 0 of step 0");
  expect_bug([&] { executable.forward(micro_batch(0, 3, 0)); },
             "is in flight");  // until its weights are done
  executable.backward_weights(micro_batch(0, 0, 0));
  executable.backward_inputs(micro_batch(0, 2, 2));
  executable.backward_weights(micro_batch(0, 1, 1));
  expect_bug([&] { executable.finish_gradients(); }, "while micro-batch 2 of step 0 is in flight");
  executable.backward_weights(micro_batch(0, 2, 2));
  executable.update(0, 0);
  step(executable, 1);
}

TEST(CallOrder, GradientsOfInputsAreSentBeforeAnythingElseRuns) {
  const Graph graph = branching_model();
  Executable executable = compile(graph, {.slots = 2, .micro_batches = 2, .delays_weights = true},
                                  {0, cut_positions(graph).at(0)}, 1);
  const auto sent = [&] {
    for (std::size_t i = 0; i < executable.stage().inputs.size(); ++i)
      if (executable.stage().inputs[i].gradient_to != kNoStage)
        executable.input_gradient(i, micro_batch(0, 0, 0));
  };
  forward(executable, micro_batch(0, 0, 0));
  executable.backward_inputs(micro_batch(0, 0, 0));
  sent();
  forward(executable, micro_batch(0, 1, 1));
  expect_bug(sent, "input_gradient() of micro-batch 0 of step 0 after something else was run");
}

TEST(CallOrder, ASlotHoldsOneMicroBatch) {
  Executable executable = compile(branching_model(), {.slots = 2, .micro_batches = 2});
  forward(executable, micro_batch(0, 0, 0));
  expect_bug([&] { executable.forward(micro_batch(0, 1, 0)); },
             "micro-batch 1 of step 0 in slot 0, where micro-batch 0 of step 0 is in flight");
  expect_bug([&] { executable.input(0, micro_batch(0, 1, 0)); }, "is in flight");
}

TEST(CallOrder, MicroBatchesRise) {
  Executable executable = compile(branching_model(), {.slots = 3, .micro_batches = 2});
  forward(executable, micro_batch(0, 0, 0));
  forward(executable, micro_batch(0, 1, 1));
  expect_bug([&] { executable.forward(micro_batch(0, 0, 2)); },
             "forward() of micro-batch 0 of step 0 after that of micro-batch 1 of step 0");
  forward(executable, micro_batch(0, 2, 2));
  backward(executable, micro_batch(0, 1, 1));
  expect_bug([&] { executable.backward_inputs(micro_batch(0, 0, 0)); },
             "backward_inputs() of micro-batch 0 of step 0 after that of micro-batch 1 of step 0");
}

TEST(CallOrder, NoMicroBatchIsLeftOutInBackward) {
  Executable executable = compile(branching_model(), {.slots = 3, .micro_batches = 2});
  for (const int index : {0, 1, 2}) forward(executable, micro_batch(0, index, index));
  backward(executable, micro_batch(0, 0, 0));
  expect_bug([&] { executable.backward_inputs(micro_batch(0, 2, 2)); },
             "backward_inputs() of micro-batch 2 of step 0 directly after that of micro-batch 0 of step 0");
}

TEST(CallOrder, AStageOfOneMicroBatchAStepGetsNoMore) {
  Executable executable = compile(branching_model(), {});
  forward(executable, micro_batch(0, 1));
  expect_bug([&] { executable.backward_inputs(micro_batch(0, 1)); }, "compiled for steps of one micro-batch");
}

TEST(CallOrder, InferenceWaitsUntilNoMicroBatchIsInFlight) {
  Executable executable = compile(branching_model(), {});
  forward(executable, inference());
  forward(executable, micro_batch(0));
  expect_bug([&] { executable.forward(inference()); }, "inference while micro-batches are in flight");
  expect_bug([&] { executable.input(0, inference()); }, "inference while micro-batches are in flight");
  executable.backward_inputs(micro_batch(0));
  expect_bug([&] { executable.forward(inference()); }, "before backward_weights()");
  executable.backward_weights(micro_batch(0));
  forward(executable, inference());
}

TEST(CallOrder, InferenceWaitsWithStashedWeights) {
  Executable executable = compile(branching_model(), {.slots = 2, .stashes_weights = true});
  forward(executable, micro_batch(0, 0, 0));
  forward(executable, micro_batch(1, 0, 1));
  backward(executable, micro_batch(0, 0, 0));
  executable.update(0, 0);
  expect_bug([&] { executable.forward(inference()); }, "inference while micro-batches are in flight");
}

TEST(CallOrder, OutputsAreReadAfterTheirForward) {
  Executable executable = compile(branching_model(), {});
  expect_bug([&] { executable.output(0, micro_batch(0)); }, "output() of micro-batch 0 of step 0");
  expect_bug([&] { executable.output(0, inference()); }, "was not the last in inference");
  forward(executable, inference());
  executable.output(0, inference());
  forward(executable, micro_batch(0));
  executable.output(0, micro_batch(0));
  expect_bug([&] { executable.output(0, inference()); }, "was not the last in inference");
  backward(executable, micro_batch(0));
  expect_bug([&] { executable.output(0, micro_batch(0)); }, "which is not in flight");
}

TEST(CallOrder, GradientsPassTheBorderInTheirPhases) {
  const Graph graph = branching_model();
  const OpId middle = cut_positions(graph).back();
  Executable first = compile(graph, {}, {0, middle}, 0);
  expect_bug([&] { first.output_gradient(0, micro_batch(0)); }, "which is not in flight");
  forward(first, micro_batch(0));
  first.output_gradient(0, micro_batch(0));
  first.backward_inputs(micro_batch(0));
  expect_bug([&] { first.output_gradient(0, micro_batch(0)); }, "after its backward_inputs()");

  Executable last = compile(graph, {}, {0, middle}, 1);
  forward(last, micro_batch(0));
  expect_bug([&] { last.input_gradient(0, micro_batch(0)); }, "before its backward_inputs()");
  last.backward_inputs(micro_batch(0));
  last.input_gradient(0, micro_batch(0));
  last.backward_weights(micro_batch(0));
  expect_bug([&] { last.input_gradient(0, micro_batch(0)); }, "which is not in flight");
}

TEST(CallOrder, PartialGradientsComeBeforeBackward) {
  // sum adds what conv_1 sent past conv_2: the gradient of an input that a later stage uses, too.
  Executable executable = compile(branching_model(), {}, {0, 1, 3}, 1);
  const auto& inputs = executable.stage().inputs;
  const auto partial =
      std::ranges::find_if(inputs, [](const StageInput& input) { return input.gradient_from != kNoStage; });
  ASSERT_NE(partial, inputs.end());
  const auto i = static_cast<std::size_t>(partial - inputs.begin());
  expect_bug([&] { executable.partial_gradient(i, micro_batch(0)); }, "which is not in flight");
  forward(executable, micro_batch(0));
  executable.partial_gradient(i, micro_batch(0));
  executable.backward_inputs(micro_batch(0));
  expect_bug([&] { executable.partial_gradient(i, micro_batch(0)); }, "after its backward_inputs()");
}

TEST(CallOrder, AnUpdateIsOfTheGradientsThatAreThere) {
  Executable executable = compile(branching_model(), {});
  expect_bug([&] { executable.update(0, 0); }, "update() of step 0, but the gradients are those of step -1");
  expect_bug([&] { executable.squared_gradients(); }, "without gradients of a step");
  forward(executable, micro_batch(4));
  backward(executable, micro_batch(4));
  expect_bug([&] { executable.update(5, 0); }, "update() of step 5, but the gradients are those of step 4");
  executable.update(4, 0);
  expect_bug([&] { executable.update(4, 0); }, "update() of step 4");
  expect_bug([&] { executable.scale_gradients(0.5F); }, "without gradients of a step");
}

TEST(CallOrder, AStepEndsWhenNoneOfItsMicroBatchesIsInFlight) {
  Executable executable = compile(branching_model(), {.slots = 2, .micro_batches = 2});
  forward(executable, micro_batch(0, 0, 0));
  forward(executable, micro_batch(0, 1, 1));
  backward(executable, micro_batch(0, 0, 0));
  expect_bug([&] { executable.update(0, 0); }, "while micro-batch 1 of step 0 is in flight");
  expect_bug([&] { executable.squared_gradients(); }, "while micro-batch 1 of step 0 is in flight");
  backward(executable, micro_batch(0, 1, 1));
  executable.update(0, 0);
}

TEST(CallOrder, NoGradientsAreAddedToTotals) {
  Executable executable = compile(branching_model(), {.micro_batches = 2});
  forward(executable, micro_batch(0, 0));
  backward(executable, micro_batch(0, 0));
  executable.finish_gradients();
  forward(executable, micro_batch(0, 1));
  expect_bug([&] { executable.backward_inputs(micro_batch(0, 1)); },
             "after gradients of this step were summed");
}

TEST(CallOrder, TheNextStepWaitsForTheUpdate) {
  Executable executable = compile(branching_model(), {.slots = 2});
  forward(executable, micro_batch(0));
  expect_bug([&] { executable.forward(micro_batch(1, 0, 1)); },
             "forward() of micro-batch 0 of step 1 while micro-batch 0 of step 0 is in flight");
  backward(executable, micro_batch(0));
  expect_bug([&] { executable.forward(micro_batch(1)); },
             "forward() of micro-batch 0 of step 1 before the update of step 0");
  executable.update(0, 0);
  step(executable, 1);
}

TEST(CallOrder, AnUpdateIsTakenBackUntilTheNextBackward) {
  Executable executable = compile(branching_model(), {.slots = 2, .updates_ahead = true});
  expect_bug([&] { executable.take_back_update(); }, "without an update_ahead() directly before");
  step(executable, 0);
  expect_bug([&] { executable.take_back_update(); }, "without an update_ahead() directly before");
  forward(executable, micro_batch(1));
  backward(executable, micro_batch(1));
  expect_bug([&] { executable.update_ahead(0, 0); },
             "update() of step 0, but the gradients are those of step 1");
  executable.update_ahead(1, 0);
  forward(executable, micro_batch(2));
  executable.take_back_update();
  expect_bug([&] { executable.take_back_update(); }, "without an update_ahead() directly before");
  expect_bug([&] { executable.backward_inputs(micro_batch(2)); }, "which is not in flight");
  executable.scale_gradients(0.5F);
  executable.update(1, 0);
  forward(executable, micro_batch(2));
  backward(executable, micro_batch(2));
  executable.update_ahead(2, 0);
  forward(executable, micro_batch(3));
  executable.backward_inputs(micro_batch(3));
  expect_bug([&] { executable.take_back_update(); }, "without an update_ahead() directly before");
}

TEST(CallOrder, AnUpdateThatMayBeTakenBackHasToBeForeseen) {
  Executable executable = compile(branching_model(), {});
  forward(executable, micro_batch(0));
  backward(executable, micro_batch(0));
  expect_bug([&] { executable.update_ahead(0, 0); }, "was not compiled for it");
  executable.update(0, 0);
}

TEST(CallOrder, AStepIsSkippedBetweenSteps) {
  Executable executable = compile(branching_model(), {});
  forward(executable, micro_batch(0));
  expect_bug([&] { executable.skip_step(0); }, "skip_step() of step 0 while micro-batches are in flight");
  backward(executable, micro_batch(0));
  expect_bug([&] { executable.skip_step(1); }, "skip_step() of step 1 before the update of step 0");
  executable.update(0, 0);
  executable.skip_step(1);
  expect_bug([&] { executable.update(2, 0); }, "the gradients are those of step 1");
  executable.update(1, 0);
}

TEST(CallOrder, StashedWeightsMakeAnUpdateAfterEachStep) {
  Executable executable =
      compile(branching_model(), {.slots = 3, .micro_batches = 2, .stashes_weights = true});
  forward(executable, micro_batch(0, 0, 0));
  forward(executable, micro_batch(0, 1, 1));
  forward(executable, micro_batch(1, 0, 2));
  backward(executable, micro_batch(0, 0, 0));
  expect_bug([&] { executable.backward_inputs(micro_batch(1, 0, 2)); }, "before the update of step 0");
}

TEST(CallOrder, GradientsAreReadWhenTheyAreTotals) {
  Executable executable = compile(branching_model(), {});
  expect_bug([&] { executable.gradient("conv_1.weight"); }, "gradient() before finish_gradients()");
  forward(executable, micro_batch(0));
  backward(executable, micro_batch(0));
  expect_bug([&] { executable.gradient("conv_1.weight"); }, "gradient() before finish_gradients()");
  executable.finish_gradients();
  executable.gradient("conv_1.weight");
  executable.update(0, 0);
  executable.gradient("conv_1.weight");
  forward(executable, micro_batch(1));
  executable.backward_inputs(micro_batch(1));
  expect_bug([&] { executable.gradient("conv_1.weight"); }, "gradient() before finish_gradients()");
}

class SharedCallOrder : public testing::Test {
 protected:
  // What several stages use: the first stage owns it and gets a partial gradient, the second sends one.
  std::size_t shared(const Executable& executable, int SharedParameter::*stage) const {
    const auto& all = executable.stage().shared;
    const auto found =
        std::ranges::find_if(all, [&](const SharedParameter& one) { return one.*stage != kNoStage; });
    EXPECT_NE(found, all.end());
    return static_cast<std::size_t>(found - all.begin());
  }

  Graph graph_ = tied_model_with_loss();
  Executable first_ = compile(graph_, {}, {0, 10}, 0);
  Executable last_ = compile(graph_, {}, {0, 10}, 1);
};

TEST_F(SharedCallOrder, SharedGradientsAreSummedBeforeTheUpdate) {
  forward(last_, micro_batch(0));
  expect_bug([&] { last_.sum_gradient(0); }, "sum_gradient() without gradients of a step");
  backward(last_, micro_batch(0));
  expect_bug([&] { last_.update(0, 0); }, "step 0 ends before sum_gradient() of '");
  expect_bug([&] { last_.squared_gradients(); }, "step 0 ends before sum_gradient() of '");
  expect_bug([&] { last_.scale_gradients(1); }, "step 0 ends before sum_gradient() of '");
  for (std::size_t i = 0; i < last_.stage().shared.size(); ++i) last_.sum_gradient(i);
  expect_bug([&] { last_.sum_gradient(0); }, "twice in step 0");
  last_.update(0, 0);
}

TEST_F(SharedCallOrder, APartialSumComesBeforeTheSum) {
  const std::size_t i = shared(first_, &SharedParameter::gradient_from);
  expect_bug([&] { first_.partial_sum(i); }, "partial_sum() without gradients of a step");
  forward(first_, micro_batch(0));
  backward(first_, micro_batch(0));
  first_.partial_sum(i);
  first_.sum_gradient(i);
  expect_bug([&] { first_.partial_sum(i); }, "after its sum_gradient()");

  forward(last_, micro_batch(0));
  backward(last_, micro_batch(0));
  expect_bug([&] { last_.partial_sum(shared(last_, &SharedParameter::gradient_to)); },
             "no partial gradient of '");
}

TEST_F(SharedCallOrder, SharedParametersAreReplacedWhenNothingIsInFlight) {
  const std::size_t i = shared(last_, &SharedParameter::from);
  last_.shared_parameter(i);
  forward(last_, micro_batch(0));
  expect_bug([&] { last_.shared_parameter(i); }, "shared_parameter() while micro-batches are in flight");
}

TEST(CallOrder, UpdatesInBackwardAreBegunBefore) {
  Executable executable = compile(image_model(), {.updates_in_backward = true});
  const auto begin = [&](std::int64_t step) { executable.begin_update(micro_batch(step), 0.1); };
  forward(executable, micro_batch(0));
  expect_bug([&] { executable.backward_inputs(micro_batch(0)); },
             "backward_inputs() of micro-batch 0 of step 0 before begin_update()");
  begin(0);
  executable.backward_inputs(micro_batch(0));
  expect_bug([&] { begin(0); }, "begin_update() of step 0 after a backward");
  executable.backward_weights(micro_batch(0));
  expect_bug([&] { executable.squared_gradients(); }, "squares that begin_update() did not ask for");
  expect_bug([&] { executable.scale_gradients(0.5F); },
             "scale_gradients(), but parameters change in backward");
  expect_bug([&] { executable.gradient_place("conv_1.weight"); },
             "the gradient of 'conv_1.weight' has no place of its own");
  expect_bug([&] { executable.update(0, 0.2); }, "update() of step 0 at another rate than begin_update()");
  executable.update(0, 0.1);
  expect_bug([&] { executable.skip_step(1); }, "skip_step(), but parameters change in backward");
  forward(executable, micro_batch(1));
  expect_bug([&] { executable.backward_inputs(micro_batch(1)); }, "before begin_update()");
  expect_bug([&] { begin(2); }, "begin_update() of micro-batch 0 of step 2, which is not in flight");
  begin(1);
  backward(executable, micro_batch(1));
  executable.update(1, 0.1);
}

// Between its beginning and its end some parameters are new.
TEST(CallOrder, UpdatesInBackwardAreBetweenForwards) {
  Executable executable =
      compile(image_model(), {.slots = 2, .stashes_weights = true, .updates_in_backward = true});
  forward(executable, micro_batch(0));
  forward(executable, micro_batch(1, 0, 1));
  executable.begin_update(micro_batch(0), 0.1);
  const std::string between = "() between begin_update() and update() of step 0";
  expect_bug([&] { executable.begin_update(micro_batch(1, 0, 1), 0.1); }, "begin_update" + between);
  expect_bug([&] { executable.predict_weights(1); }, "predict_weights" + between);
  expect_bug([&] { executable.training_state(); }, "training_state" + between);
  backward(executable, micro_batch(0));
  expect_bug([&] { forward(executable, micro_batch(2)); }, "forward" + between);
  executable.update(0, 0.1);
  executable.predict_weights(1);
  forward(executable, micro_batch(2));
}

TEST(CallOrder, UpdatesInBackwardAreOfStepsOfOneMicroBatch) {
  for (const InFlight& in_flight : {InFlight{.micro_batches = 2, .updates_in_backward = true},
                                    InFlight{.updates_ahead = true, .updates_in_backward = true}})
    expect_bug([&] { compile(image_model(), in_flight); }, "updates in backward, of steps of several");
  Executable executable = compile(image_model(), {});
  expect_bug([&] { executable.begin_update(micro_batch(0), 0.1); }, "but the stage was not compiled for it");
}

}  // namespace
}  // namespace rookery
