// What a plan counts where large parameters change in backward, so that their gradients take no memory.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "clusterize/planner/make_metadata.hpp"
#include "clusterize/planner/planner.hpp"
#include "models/graph/ops/builder.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "trainer/trainer.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TrainingTask mlp_task() {
  GraphBuilder b;
  ValueId x = b.flatten("flat", b.input("input", {1, 8, 8}));
  for (int i = 0; i < 3; ++i)
    x = b.relu("relu_" + std::to_string(i), b.linear("dense_" + std::to_string(i), x, 512));
  TrainingTask task{.graph = b.finish(b.linear("last", x, 10)), .settings = {}, .data = {1078, 719}};
  add_loss(task.graph, task.settings.loss);
  task.kernels = choose_kernels(task.graph, task.settings.batch_size);
  return task;
}

// Where nobody wants the gradients of a step, large ones take no memory.
TEST(Plan, UpdatesInBackwardTakeLess) {
  TrainingTask task = mlp_task();
  const auto gradients = [&](const Json& pool, const SearchOptions& options = {}) {
    const Planned planned = plan(pool, task, options);
    std::vector<double> shares;  // of what their parameters take
    for (std::size_t c = 0; c < planned.plan.clusters.size(); ++c) {
      for (std::size_t s = 0; s < planned.stages[c].size(); ++s) {
        const StagePrediction& prediction = planned.plan.clusters[c].stages[s].prediction;
        shares.push_back(static_cast<double>(prediction.memory.gradients) /
                         static_cast<double>(prediction.memory.parameters));
        const NodeMetadata metadata = make_metadata(task, planned, static_cast<int>(c), static_cast<int>(s));
        CompileOptions compile = compile_options(metadata.settings, metadata.data, metadata.stage,
                                                 metadata.stages, metadata.kernels, metadata.shares);
        compile.recompute = metadata.recompute;
        const KernelThreads threads(metadata.threads);
        EXPECT_EQ(memory_use(planned.stages[c][s], compile).total(), prediction.memory.total());
      }
    }
    return shares;
  };
  const SearchOptions one_each{.objective = Objective::kThroughput, .min_nodes = 1, .clusters = 2};
  EXPECT_THAT(gradients(equal_nodes(1)), ElementsAre(testing::Lt(0.05)));
  EXPECT_THAT(gradients(equal_nodes(2), one_each), ElementsAre(1, 1)) << "which are averaged";
  task.settings.averaging.mode = "parameters";
  EXPECT_THAT(gradients(equal_nodes(2), one_each), testing::Each(testing::Lt(0.05)));
  task.settings.micro_batches = 2;
  EXPECT_THAT(gradients(equal_nodes(1)), ElementsAre(1));
}

// A machine that has room for a model, its optimizer's state and hardly more.
TEST(Plan, AMachineAloneNeedsNoRoomForGradients) {
  TrainingTask task = mlp_task();
  const std::int64_t all = plan(equal_nodes(1), task).plan.clusters[0].stages[0].prediction.total_bytes();
  const double room = static_cast<double>(all) / 1e9 * 1.0001;
  EXPECT_EQ(plan(equal_nodes(1, room), task).plan.clusters.size(), 1U);
  task.settings.clip_gradient_norm = 1;
  EXPECT_THAT(error_of([&] { plan(equal_nodes(1, room), task); }), HasSubstr("does not fit"));
}

}  // namespace
}  // namespace rookery
