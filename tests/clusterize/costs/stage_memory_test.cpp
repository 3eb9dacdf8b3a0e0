#include "clusterize/costs/stage_memory.hpp"

#include <gtest/gtest.h>

#include "clusterize/costs/model_costs.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/kernels/threads.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "trainer/trainer.hpp"

namespace rookery {
namespace {

struct Memory {
  std::unique_ptr<StageMemory> stages;
  int segments = 0;
};

Memory memory_of(Graph graph, int micro_batches, const std::string& schedule = "1f1b", int clusters = 2) {
  const TrainingSettings settings{
      .batch_size = 8, .micro_batches = micro_batches, .schedule = {.name = schedule}};
  const DataSizes data{.train_samples = 64};
  const KernelChoice kernels = choose_kernels(graph, 8 / micro_batches);
  const ModelCosts costs = model_costs(graph, settings, data, kernels);
  std::vector<OpId> begins;
  for (const Segment& segment : costs.segments) begins.push_back(segment.begin);
  return {std::make_unique<StageMemory>(std::move(graph), begins, settings, data, kernels, 1, clusters),
          costs.count()};
}

Graph with_loss(Graph graph, const LossSettings& loss) {
  add_loss(graph, loss);
  return graph;
}

LossSettings losses_of_words() {
  LossSettings words("cross_entropy");
  words.terms[0].output = "prediction_logits";
  words.terms.push_back(
      {.name = "cross_entropy", .output = "seq_relationship_logits", .target = "next_sentence_label"});
  return words;
}

// In segments. Fewer with sanitizers, under which a stage takes a second.
std::vector<int> lengths(int segments) {
#ifdef ROOKERY_SANITIZED
  return {segments / 2};
#else
  return {3, 8, segments / 2, segments};
#endif
}

// Residual connections, attention, and a parameter that the first and the last segment share.
TEST(StageMemory, EstimatesAreNoLessThanWhatIsMeasured) {
  std::vector<Memory> models;
  models.push_back(memory_of(with_loss(resnet18({.image_size = 64, .classes = 10}), "cross_entropy"), 2));
  models.push_back(
      memory_of(with_loss(zoo_model("bert?size=mini&length=64&vocabulary=3000"), losses_of_words()), 4));
  models.push_back(
      memory_of(with_loss(resnet18({.image_size = 64, .classes = 10}), "cross_entropy"), 1, "async"));
  models.push_back(
      memory_of(with_loss(resnet18({.image_size = 64, .classes = 10}), "cross_entropy"), 1, "1f1b", 1));
  for (const Memory& model : models) {
    for (const auto& [slots, recompute] : {std::pair(1, false), std::pair(2, false), std::pair(2, true)}) {
      if (slots > model.stages->most_slots()) continue;
      for (const int length : lengths(model.segments)) {
        for (int first = 0; first + length <= model.segments; first += 1 + model.segments / 4) {
          const auto estimated =
              static_cast<double>(model.stages->estimated({first, first + length, slots, recompute}));
          const auto measured =
              static_cast<double>(model.stages->measured({first, first + length, slots, recompute}));
          // What neighbours but one share counts more than once.
          EXPECT_GE(estimated / measured, 0.97)
              << first << " + " << length << " of " << model.segments << ", " << slots << recompute;
          // The first stage has no gradient of its inputs, which the windows that it is estimated by have.
          EXPECT_LE(estimated / measured, first == 0 ? 1.9 : 1.5)
              << first << " + " << length << " of " << model.segments << ", " << slots << recompute;
        }
      }
    }
  }
}

// Every thread has scratch memory of its own, where a kernel needs any, as for attention with AVX-512.
TEST(StageMemory, IsThatOfTheThreadsOfARange) {
  const Graph graph = with_loss(zoo_model("bert?size=mini&length=64&vocabulary=3000"), losses_of_words());
  const TrainingSettings settings{.batch_size = 8};
  const KernelChoice kernels = choose_kernels(graph, 8);
  const ModelCosts costs =
      model_costs(graph, settings, {.train_samples = 64}, kernels, nullptr, kMostSegments, {1, 4}, 1);
  const auto exact = costs.memory->exact();  // none where it is already
  const MemoryModel& memory = exact == nullptr ? *costs.memory : *exact;
  const auto bytes = [&](int threads) {
    return memory.bytes({.first = 0, .last = costs.count(), .threads = threads});
  };
  const auto used = [&](int threads) {
    const KernelThreads of_kernels(threads);
    const Stage stage = cut(graph, std::vector<OpId>{0}).front();
    CompileOptions options = compile_options(settings, {.train_samples = 64}, 0, 1, kernels);
    options.recompute = false;
    return memory_use(stage, options).total() + transport_bytes(stage, 8);
  };
  EXPECT_EQ(bytes(1), used(1));
  EXPECT_EQ(bytes(4), used(4));
  EXPECT_GE(bytes(4), bytes(1)) << "more, where the kernels of this processor have such memory";
  EXPECT_EQ(bytes(3), bytes(1)) << "the next that is known";
}

// A plan is a function of its arguments: what is learned of one stage makes another model, and leaves the one
// that it was learned with as it was.
TEST(StageMemory, RefiningLeavesTheModelAsItWas) {
  GraphBuilder net;
  ValueId x = net.input("input", {8});
  for (int i = 0; i <= kExactSegments; ++i) x = net.linear("dense_" + std::to_string(i), x, 8);
  const Graph graph = with_loss(net.finish(x), "cross_entropy");
  const TrainingSettings settings{.batch_size = 8, .micro_batches = 2};
  const KernelChoice kernels = choose_kernels(graph, 4);
  std::vector<OpId> begins = cut_positions(graph);
  begins.insert(begins.begin(), 0);
  const auto segments = static_cast<int>(begins.size());
  const auto estimates = stage_memory(graph, begins, settings, {.train_samples = 64}, kernels, {1}, 2);
  ASSERT_FALSE(estimates->is_exact());
  const auto exact = estimates->exact();
  ASSERT_TRUE(exact->is_exact());
  EXPECT_EQ(exact->refine({}), nullptr);
  EXPECT_EQ(exact->exact(), nullptr);

  const StageRange stage{.first = 0, .last = segments, .slots = 2};
  const StageRange fewer{.first = 0, .last = segments, .slots = 1};
  const StageRange other{.first = 1, .last = segments, .slots = 2};
  const std::int64_t before = estimates->bytes(stage);
  const std::int64_t other_before = estimates->bytes(other);
  const auto refined = estimates->refine(std::vector{stage});
  EXPECT_EQ(estimates->bytes(stage), before);
  EXPECT_EQ(estimates->bytes(other), other_before);
  EXPECT_EQ(refined->bytes(stage), exact->bytes(stage));
  EXPECT_EQ(refined->bytes(fewer), exact->bytes(fewer)) << "measured together";
  EXPECT_GE(refined->bytes(other), other_before);
}

}  // namespace
}  // namespace rookery
