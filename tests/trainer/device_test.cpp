// Training on a device whose memory the host cannot read: the same bits as on the host.
#include <gtest/gtest.h>

#include "models/zoo/zoo.hpp"
#include "tests/support/digits.hpp"
#include "tests/support/guarded_device.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/tied_model.hpp"

namespace rookery {
namespace {

void check_alike(const Graph& model, std::size_t stages, const TrainingSettings& settings) {
  const std::vector<OpId> begins = even_cuts(model, settings.loss, digits(), stages);
  const PipelineResult host = run_pipeline(model, begins, settings, digits());
  PipelineOptions guarded;
  guarded.processor = &test::guarded_processor();
  const PipelineResult there = run_pipeline(model, begins, settings, digits(), guarded);
  EXPECT_FALSE(host.losses.empty());
  EXPECT_EQ(there.losses, host.losses);
  EXPECT_EQ(there.accuracies, host.accuracies);
  EXPECT_EQ(there.sample_digests, host.sample_digests);
  EXPECT_TRUE(same_state(there.state, host.state));
}

TrainingSettings settings() {
  TrainingSettings settings;
  settings.epochs = 1;
  settings.loss = "cross_entropy";
  return settings;
}

TEST(Device, APipelineTrainsAlike) {
  TrainingSettings run = settings();
  run.micro_batches = 4;
  run.clip_gradient_norm = 0.1;
  check_alike(tied_model({1, 8, 8}, 10), 3, run);
}

TEST(Device, StashedWeightsAreTheSame) {
  TrainingSettings run = settings();
  run.schedule = {.name = "async"};
  check_alike(cnn_net(), 3, run);
}

TEST(Device, OneStageTrainsAlike) {
  check_alike(cnn_net(), 1, settings());
}

}  // namespace
}  // namespace rookery
