#include "models/runtime/profile/step_profile.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/kernels/choose.hpp"
#include "tests/models/runtime/test_processor.hpp"

namespace rookery {
namespace {

// Made-up targets are labels that count, of every position.
TEST(StepProfile, MeasuresALossThatLeavesPositionsOut) {
  GraphBuilder b;
  Graph graph = b.finish(b.linear("dense", b.input("input", {3, 4}), 5));
  LossTerm term{.name = "cross_entropy"};
  term.ignore_index = -100;
  add_loss(graph, LossSettings(std::vector{term}));
  const std::vector<OpId> begins{0};
  const Stage stage = std::move(cut(graph, begins).front());
  StepProfiler profiler(stage, {.training_sizes = {6},
                                .inference_sizes = {6},
                                .kernels = choose_kernels(graph, 6),
                                .seed = 7,
                                .optimizer = {},
                                .processor = &test_processor()});
  profiler.run(0);
  const StepProfile profile = profiler.profile();
  EXPECT_EQ(profile.steps, 3);
  EXPECT_FALSE(profile.ops.empty());
}

}  // namespace
}  // namespace rookery
