// Replays 100 steps of cnn_net that PyTorch trained (tests/golden/make_cnn_net_trace.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/base/files/json_file.hpp"
#include "models/base/libraries/json.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/repository.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/memory_link.hpp"
#include "trainer/stage_worker.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kBatchSize = 64;

Stage cnn_net_without_dropout() {
  Graph graph = cnn_net();
  for (std::size_t i = 0; i < graph.ops().size(); ++i) {
    Op& op = graph.op(static_cast<OpId>(i));
    if (op.type == "Dropout") op.attributes["ratio"] = 0.0F;
  }
  add_loss(graph, "mse");
  return std::move(cut(graph, std::vector<OpId>{0}).front());
}

// The largest difference between two tensors of the same type.
double distance(const Tensor& a, const Tensor& b) {
  if (a.type().dtype == DType::kI64)
    return std::ranges::equal(a.as<std::int64_t>(), b.as<std::int64_t>()) ? 0 : 1;
  double most = 0;
  for (std::size_t i = 0; i < a.as<float>().size(); ++i) {
    most = std::max(most, std::abs(double{a.as<float>()[i]} - double{b.as<float>()[i]}));
  }
  return most;
}

class GoldenTrace : public testing::TestWithParam<std::string> {
 protected:
  const Json trace_ = read_json(kGolden / "cnn_net_trace.json");
  const std::unique_ptr<Dataset> digits_ = open_dataset("digits", kNodeData);
  const Stage stage_ = cnn_net_without_dropout();

  KernelChoice kernels() const {
    KernelChoice choice;
    for (const Op& op : stage_.graph.ops()) choice[op.name] = GetParam();
    return GetParam() == "chosen" ? choose_kernels(stage_.graph, kBatchSize) : choice;
  }
};

TEST_P(GoldenTrace, LossesAndWeightsAreThoseOfPyTorch) {
  Executable executable(stage_, {.training_sizes = {kBatchSize}, .kernels = kernels(), .seed = 0},
                        read_safetensors(kGolden / "cnn_net_initial.safetensors").tensors);
  auto links = make_memory_links(1, std::chrono::seconds(1));
  const auto fill = [&](const MicroBatch& micro_batch, const std::string& value, TensorView into) {
    const auto ids = trace_.at("batches").at(micro_batch.step).get<std::vector<std::int64_t>>();
    if (value == kSampleIds) {
      std::ranges::copy(ids, into.as<std::int64_t>().begin());
    } else {
      digits_->gather(value, ids, into);
    }
  };
  StageWorker worker(executable, *links[0], {}, fill);

  const auto losses = trace_.at("losses").get<std::vector<double>>();
  ASSERT_EQ(losses.size(), 100U);
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const double loss =
        worker.train(static_cast<std::int64_t>(step), 1e-3, std::vector<std::int64_t>{kBatchSize}).loss;
    ASSERT_NEAR(loss, losses[step], 1e-4 * losses[step]) << "step " << step;
  }

  const StateDict expected = read_safetensors(kGolden / "cnn_net_final.safetensors").tensors;
  const StateDict state = executable.state();
  ASSERT_EQ(state.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_EQ(state.at(name).type(), tensor.type()) << name;
    EXPECT_LT(distance(state.at(name), tensor), 1e-3) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenTrace, testing::Values("chosen", "eigen"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace rookery
