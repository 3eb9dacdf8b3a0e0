// Planned memory against the measured peak of the real provider, in whole training runs of large stages. A
// sanitizer's own memory would be measured with it: their presets leave these tests out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "clusterize/planner/planner.hpp"
#include "clusterize/planner/write_plan.hpp"
#include "clusterize/provider_symlinks.hpp"
#include "clusterize/task/make_task.hpp"
#include "models/base/libraries/json.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/freeze.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/initialize.hpp"
#include "node/launch/child_process.hpp"
#include "node/provider_events.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/feed/split.hpp"

namespace rookery {
namespace {

constexpr int kFeatures = 64;

// A data set of small integers: "csv:data.csv".
void write_data(const std::filesystem::path& folder, int samples) {
  std::ofstream file(folder / "data.csv");
  for (int sample = 0; sample < samples; ++sample) {
    for (int i = 0; i < kFeatures; ++i) file << (sample * 7 + i * 13) % 17 << ',';
    file << sample % 10 << '\n';
  }
}

// 4 x 4 million weights: parameters, gradients and Adam's state make 256 MB.
Graph wide_layers() {
  GraphBuilder b;
  ValueId x = b.linear("first", b.flatten("flat", b.input("input", {1, 8, 8})), 2000);
  for (int i = 0; i < 4; ++i) {
    const std::string layer = std::to_string(i);
    x = b.relu("relu_" + layer, b.linear("dense_" + layer, x, 2000));
  }
  return b.finish(b.linear("last", x, 10));
}

// 64 x 1 million weights, 256 MB, of which the last layer alone is trained.
Graph frozen_layers() {
  GraphBuilder b;
  ValueId x = b.linear("first", b.flatten("flat", b.input("input", {1, 8, 8})), 1000);
  for (int i = 0; i < 64; ++i) {
    const std::string layer = std::to_string(i);
    x = b.relu("relu_" + layer, b.linear("dense_" + layer, x, 1000));
  }
  Graph graph = b.finish(b.linear("last", x, 10));
  choose_trained(graph, {"*"}, {"last.*"}, {});
  return graph;
}

// Activations of 32 channels in every layer.
Graph images() {
  GraphBuilder b;
  ValueId x = b.input("input", {1, 8, 8});
  for (int i = 0; i < 6; ++i) {
    const std::string layer = std::to_string(i);
    x = b.relu("relu_" + layer, b.batch_norm("norm_" + layer, b.conv2d("conv_" + layer, x, 32)));
  }
  return b.finish(b.linear("last", b.flatten("flat", x), 10));
}

struct Measured {
  double peak = 0, planned = 0;  // MB
};

Measured parse(const std::string& report) {
  const auto number_after = [&](const std::string& text) {
    const std::size_t at = report.find(text);
    if (at == std::string::npos) return 0.0;
    std::istringstream words(report.substr(at + text.size()));
    double number = 0;
    std::string unit;
    words >> number >> unit;
    return unit.starts_with("GB") ? 1e3 * number : number;
  };
  return {.peak = number_after("memory: "), .planned = number_after("planned: ")};
}

// Trains with the real providers on `nodes` machines; what each measured, by stage.
std::vector<Measured> run_providers(Graph model, TrainingSettings settings, int samples, int nodes) {
  const ScratchFolder folder;
  write_data(folder.path(), samples);
  settings.data = "csv:data.csv";
  settings.model = "large";
  TrainingTask task{.graph = std::move(model),
                    .settings = settings,
                    .data = data_sizes(*open_dataset(settings.data, folder.path()), settings)};
  add_loss(task.graph, settings.loss);
  task.kernels = choose_kernels(task.graph, micro_batch_sizes(settings, settings.batch_size).front());
  Json pool = Json::object();
  for (int i = 0; i < nodes; ++i) {
    pool[std::to_string(i)] = {{"IP", "127.0.0.1:" + std::to_string(23170 + i)},
                               {"benchmarks", {{"ram", 8}, {"bandwidth", 10000}}}};
  }
  const Planned planned =
      make_plan(task, NodePool::from_json(pool, "node_configs.json"), {.min_nodes = nodes});
  write_plan(folder.path(), task, planned, initial_state(task.graph, settings.seed));
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (const PlannedStage& stage : planned.plan.clusters.at(0).stages) {
    children.push_back(std::make_unique<ChildProcess>(
        std::vector<std::string>{(program_folder() / "provider").string(), "--json", "--name", stage.node,
                                 "--node-data", folder.path().string(), "--output", folder.path().string()}));
  }
  std::vector<Measured> measured;
  for (const auto& child : children) {
    std::string errors;
    std::optional<int> code;
    Measured result;
    while (child->standard_output().descriptor() >= 0 || !(code = child->exit_code())) {
      pollfd items[] = {{child->standard_output().descriptor(), POLLIN, 0},
                        {child->standard_error().descriptor(), POLLIN, 0}};
      ::poll(items, 2, 10);
      child->standard_error().read([&](const std::string& line) { errors += line + "\n"; });
      child->standard_output().read([&](const std::string& line) {
        const auto event = parse_json_line(line);
        if (!event || event->kind != ProviderEvent::Kind::kDone) return;
        std::printf("%s\n", event->text.c_str());
        result = parse(event->text);
      });
    }
    EXPECT_EQ(code, 0) << errors;
    measured.push_back(result);
  }
  return measured;
}

void expect_agreement(const std::vector<Measured>& stages) {
  for (const Measured& stage : stages) {
    EXPECT_GE(stage.planned, 100);
    EXPECT_LE(stage.peak, 1.05 * stage.planned);
    EXPECT_GE(stage.peak, 0.95 * stage.planned);
  }
}

TEST(Memory, OfLargeWeightsIsAsPlanned) {
  const TrainingSettings settings{.loss = "cross_entropy", .epochs = 2, .batch_size = 64, .micro_batches = 2};
  expect_agreement(run_providers(wide_layers(), settings, 256, 1));
}

TEST(Memory, OfFrozenWeightsIsAsPlanned) {
  const TrainingSettings settings{.loss = "cross_entropy", .epochs = 2, .batch_size = 64};
  expect_agreement(run_providers(frozen_layers(), settings, 256, 1));
}

TEST(Memory, OfLargeActivationsIsAsPlanned) {
  TrainingSettings settings{
      .train_fraction = 1, .loss = "cross_entropy", .epochs = 1, .batch_size = 2000, .validate_every = 0};
  const std::vector<Measured> plain = run_providers(images(), settings, 2000, 1);
  expect_agreement(plain);
  settings.batch_size = 4000;
  settings.recompute = "full";
  const std::vector<Measured> again = run_providers(images(), settings, 4000, 1);
  expect_agreement(again);
  EXPECT_LT(again[0].peak, 1.5 * plain[0].peak) << "twice the batch, recomputed";
}

TEST(Memory, OfAPipelineIsAsPlanned) {
  const TrainingSettings settings{
      .train_fraction = 1, .loss = "cross_entropy", .epochs = 1, .batch_size = 6400, .micro_batches = 4};
  expect_agreement(run_providers(images(), settings, 6400, 2));
}

}  // namespace
}  // namespace rookery
