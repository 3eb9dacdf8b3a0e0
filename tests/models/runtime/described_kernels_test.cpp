#include "models/runtime/compile/described_kernels.hpp"

#include <gmock/gmock.h>

#include "models/base/check.hpp"
#include "models/kernels/threads.hpp"
#include "models/runtime/compile/compile_options.hpp"
#include "tests/models/runtime/random_batch.hpp"
#include "tests/models/runtime/trained_models.hpp"

namespace rookery {
namespace {

class CountingProcessor final : public Processor {
 public:
  Device* device() const override { return host_processor().device(); }
  const Arithmetic& arithmetic() const override { return host_processor().arithmetic(); }
  std::unique_ptr<Kernel> describe_kernel(const std::string& choice,
                                          const KernelRequest& request) const override {
    ++count;
    return host_processor().describe_kernel(choice, request);
  }
  mutable int count = 0;
};

// In stages, whose ops are others than those of the whole.
std::vector<Stage> stages_of(const Graph& graph) {
  const auto ops = static_cast<OpId>(graph.ops().size());
  return cut(graph, std::vector<OpId>{0, ops / 3, 2 * ops / 3});
}

CompileOptions two_slots(const Graph& graph, const Processor& processor) {
  CompileOptions options = options_for(graph, 6);
  options.training_sizes = {6, 2};
  options.slots = 2;
  options.micro_batches = 2;
  options.processor = &processor;
  return options;
}

TEST(DescribedKernels, TakeWhatThoseOfTheProcessorTake) {
  for (const Graph& graph : {branching_model(), image_model(), recurrent_model(), tied_model_with_loss()}) {
    const DescribedKernels described(host_processor());
    for (const bool recompute : {false, true}) {
      for (const Stage& stage : stages_of(graph)) {
        CompileOptions options = two_slots(graph, host_processor());
        options.recompute = recompute;
        const MemoryUse there = memory_use(stage, options);
        options.processor = &described;
        for (int again = 0; again < 2; ++again) {
          const MemoryUse planned = memory_use(stage, options);
          EXPECT_EQ(planned.total(), there.total());
          EXPECT_EQ(planned.workspace, there.workspace);
          EXPECT_EQ(planned.program, there.program);
        }
      }
    }
  }
}

TEST(DescribedKernels, AreDescribedOnceForEachNumberOfThreads) {
  const Graph graph = image_model();
  const CountingProcessor counting;
  const DescribedKernels described(counting);
  const auto compile = [&] {
    for (const Stage& stage : stages_of(graph)) memory_use(stage, two_slots(graph, described));
    return counting.count;
  };
  const int first = compile();
  EXPECT_GT(first, 0);
  EXPECT_EQ(compile(), first);
  const KernelThreads threads(2);
  EXPECT_EQ(compile(), 2 * first);
  EXPECT_EQ(compile(), 2 * first);
}

TEST(DescribedKernels, AreNotRun) {
  const Op op{.name = "relu", .type = "Relu", .inputs = {0}, .outputs = {1}, .attributes = {}};
  const std::vector<TensorType> types{{DType::kF32, {4}}};
  const DescribedKernels described(host_processor());
  EXPECT_THROW(described.describe_kernel("eigen", {.op = op, .inputs = types, .outputs = types})
                   ->run({}, {}, nullptr, {}),
               BugError);
}

}  // namespace
}  // namespace rookery
