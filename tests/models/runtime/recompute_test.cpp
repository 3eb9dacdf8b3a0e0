// Recomputation changes no bit: op by op in memory of its own for every value, and in compiled stages.
#include "models/graph/passes/memory/recompute.hpp"
#include "models/graph/passes/differentiate.hpp"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "models/base/rng.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/runtime/executable.hpp"
#include "tests/models/runtime/test_processor.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_sections.hpp"

namespace rookery {
namespace {

constexpr std::uint64_t kSeed = 11;
constexpr std::int64_t kRecomputedBatch = 3;

Tensor random_value(const Value& value, const TensorType& type) {
  Tensor tensor(type);
  CounterRng rng(rng_key(kSeed, value.name), 0);
  if (type.dtype == DType::kF32) {
    for (float& x : tensor.as<float>()) x = rng.next_float() + 0.1F;
  } else if (type.dtype == DType::kI64) {
    for (std::int64_t& label : tensor.as<std::int64_t>()) label = rng.next_below(5);
  }
  return tensor;
}

// Every value's bytes after forward and both backward phases, with the kernels of the reference back end.
class Interpreter {
 public:
  explicit Interpreter(const TrainingGraph& training)
      : training_(training), graph_(training.graph), types_(training.graph.types(kRecomputedBatch)) {
    for (std::size_t id = 0; id < types_.size(); ++id) {
      const Value& value = graph_.values()[id];
      values_.push_back(value.producer == kNoOp ? random_value(value, types_[id]) : Tensor(types_[id]));
    }
    for (const Phase phase : {Phase::kForward, Phase::kBackwardInputs, Phase::kBackwardWeights}) {
      for (std::size_t op = 0; op < graph_.ops().size(); ++op) {
        if (training_.phases[op] == phase) run(graph_.ops()[op]);
      }
    }
  }

  const Tensor& operator[](const std::string& name) const { return values_[graph_.at(name)]; }

 private:
  void run(const Op& op) {
    if (is_view(op)) {
      const Tensor& from = values_[op.inputs[0]];
      Tensor& to = values_[op.outputs[0]];
      std::memcpy(to.view().data, from.view().data, to.type().bytes());
      return;
    }
    std::vector<TensorType> input_types;
    std::vector<TensorType> output_types;
    std::vector<ConstTensorView> inputs;
    std::vector<TensorView> outputs;
    for (const ValueId id : op.inputs) {
      inputs.push_back(id == kNoValue ? ConstTensorView() : std::as_const(values_[id]).view());
      input_types.push_back(inputs.back().type);
    }
    for (const ValueId id : op.outputs) {
      outputs.push_back(id == kNoValue ? TensorView() : values_[id].view());
      output_types.push_back(outputs.back().type);
    }
    // The op that runs again has the kernel of the first.
    Op first = op;
    if (op.name.ends_with(".again")) first.name = op.text("forward", "");
    const auto kernel =
        make_kernel("eigen", {.op = first, .inputs = input_types, .outputs = output_types, .seed = kSeed});
    AlignedBuffer scratch(kernel->scratch_bytes());
    kernel->run(inputs, outputs, scratch.data(), {.step = 3, .micro_batch = 1, .loss_weight = 0.5F});
  }

  const TrainingGraph& training_;
  const Graph& graph_;
  std::vector<TensorType> types_;
  std::vector<Tensor> values_;
};

void expect_same_bits(const Tensor& a, const Tensor& b, const std::string& name) {
  const auto left = a.view().bytes();
  const auto right = b.view().bytes();
  ASSERT_EQ(left.size(), right.size()) << name;
  EXPECT_EQ(std::memcmp(left.data(), right.data(), left.size()), 0) << name;
}

RC_GTEST_PROP(Recompute, RandomSectionsComputeTheSameBits, ()) {
  for (const Stage& stage : test::random_stages()) {
    const TrainingGraph training = differentiate(stage.graph, stage.gradient_request());
    const RecomputedGraph made = recompute(training, test::random_sections(stage));
    const Interpreter expected(training);
    const Interpreter actual(made.training);
    for (const Value& value : training.graph.values())
      expect_same_bits(expected[value.name], actual[value.name], value.name);
    for (std::size_t id = 0; id < made.values.size(); ++id) {
      const std::string& again = made.training.graph.values()[id].name;
      const std::string& first = training.graph.value(made.values[id]).name;
      if (again != first) expect_same_bits(expected[first], actual[again], again);
    }
  }
  RC_ASSERT(!testing::Test::HasFailure());
}

// Trains a few steps on one stage; the loss of every micro-batch, and the state at the end.
std::pair<std::vector<float>, StateDict> train(const Graph& graph, const CompileOptions& options,
                                               int micro_batches) {
  const std::vector<OpId> begins{0};
  Executable executable(cut(graph, begins).front(), options, initial_state(graph, kSeed));
  std::vector<float> losses;
  for (int step = 0; step < 4; ++step) {
    const auto micro_batch = [&](int index) {
      return MicroBatch{.step = step,
                        .index = index,
                        .size = kRecomputedBatch,
                        .slot = index % options.slots,
                        .loss_weight = 1.0F / static_cast<float>(micro_batches)};
    };
    const auto forward = [&](int index) {
      for (std::size_t i = 0; i < executable.stage().inputs.size(); ++i) {
        const TensorView there = executable.input(i, micro_batch(index));
        write_from_host(there, [&](TensorView into) {
          CounterRng rng(rng_key(kSeed, executable.stage().inputs[i].value),
                         static_cast<std::uint64_t>(step * 10 + index));
          if (into.type.dtype == DType::kF32) {
            for (float& x : into.as<float>()) x = 2 * rng.next_float() - 1;
          } else {
            for (std::int64_t& x : into.as<std::int64_t>()) x = rng.next_below(5);
          }
        });
      }
      executable.forward(micro_batch(index));
      const auto& outputs = executable.stage().outputs;
      const auto loss = std::ranges::find(outputs, kLoss, &StageOutput::value);
      const auto i = static_cast<std::size_t>(loss - outputs.begin());
      losses.push_back(HostTensor(executable.output(i, micro_batch(index))).view().as<float>()[0]);
    };
    // As many forwards ahead as there are slots.
    for (int index = 0; index < micro_batches + options.slots - 1; ++index) {
      if (index < micro_batches) forward(index);
      if (index < options.slots - 1) continue;
      const MicroBatch oldest = micro_batch(index - options.slots + 1);
      executable.backward_inputs(oldest);
      executable.backward_weights(oldest);
    }
    executable.update(step, options.optimizer.learning_rate);
  }
  return {losses, executable.state()};
}

RC_GTEST_PROP(Recompute, StagesTrainToTheSameBits, ()) {
  const Graph graph = test::RandomGraph::make(*rc::gen::arbitrary<unsigned>(), *rc::gen::inRange(5, 40));
  const int micro_batches = *rc::gen::inRange(1, 5);
  CompileOptions options{.training_sizes = {kRecomputedBatch},
                         .inference_sizes = {},
                         .slots = *rc::gen::inRange(1, micro_batches + 1),
                         .micro_batches = micro_batches,
                         .kernels = choose_kernels(graph, kRecomputedBatch),
                         .seed = kSeed,
                         .optimizer = {},
                         .processor = &test_processor()};
  const auto [losses, state] = train(graph, options, micro_batches);
  options.recompute = true;
  const auto [again_losses, again_state] = train(graph, options, micro_batches);
  const auto same = [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  RC_ASSERT(std::ranges::equal(losses, again_losses, same));
  for (const auto& [name, tensor] : state) expect_same_bits(tensor, again_state.at(name), name);
  RC_ASSERT(!testing::Test::HasFailure());
}

TEST(Recompute, MemoryUseKnowsIt) {
  const Graph graph = test::RandomGraph::make(5, 60);
  const std::vector<OpId> begins{0};
  const Stage stage = std::move(cut(graph, begins).front());
  CompileOptions options{.training_sizes = {64},
                         .inference_sizes = {},
                         .slots = 4,
                         .kernels = choose_kernels(graph, 64),
                         .seed = kSeed,
                         .optimizer = {},
                         .processor = &test_processor()};
  const MemoryUse plain = memory_use(stage, options);
  options.recompute = true;
  const MemoryUse again = memory_use(stage, options);
  EXPECT_LT(again.total(), plain.total());
  EXPECT_LT(2 * again.stash, plain.stash);
  EXPECT_EQ(Executable(stage, options, initial_state(graph, kSeed)).memory().total(), again.total());
}

}  // namespace
}  // namespace rookery
