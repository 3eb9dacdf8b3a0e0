// Jobs with several inputs, outputs and losses: the cut and the micro-batches change nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "models/base/error.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/two_headed_model.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

std::vector<std::vector<double>> columns_of(const std::filesystem::path& path, std::string& heading) {
  std::ifstream file(path);
  std::getline(file, heading);
  std::vector<std::vector<double>> lines;
  for (std::string line; std::getline(file, line);) {
    std::istringstream text(line);
    lines.emplace_back(std::istream_iterator<double>(text), std::istream_iterator<double>());
  }
  return lines;
}

class SeveralLosses : public testing::Test {
 protected:
  SeveralLosses() {
    write_two_headed_data(folder_.path() / "data.safetensors");
    data_ = open_dataset("tensors:data.safetensors", folder_.path());
    settings_.loss = two_headed_loss();
    settings_.batch_size = 16;
    settings_.epochs = 4;
    settings_.optimizer.learning_rate = 0.02;
    Graph with_loss = two_headed_model();
    add_loss(with_loss, settings_.loss, target_types(*data_, settings_.loss));
    positions_ = cut_positions(with_loss);
  }

  PipelineResult run(const std::vector<OpId>& begins, int micro_batches) {
    settings_.micro_batches = micro_batches;
    return run_pipeline(two_headed_model(), begins, settings_, *data_,
                        {.output = folder_.path(), .make_links = {}});
  }

  ScratchFolder folder_;
  std::unique_ptr<Dataset> data_;
  TrainingSettings settings_;
  std::vector<OpId> positions_;
};

TEST_F(SeveralLosses, EveryCutTrainsTheSameBits) {
  // A loss may measure what an earlier stage made, but the Leaf makes an output.
  EXPECT_EQ(positions_.size(), 11U);
  for (const int micro_batches : {1, 3}) {
    const PipelineResult whole = run({0}, micro_batches);
    EXPECT_EQ(whole.losses.size(), 8U);  // 30 samples in batches of 16 and 14, four times
    EXPECT_LT(whole.losses.back(), 0.8 * whole.losses.front());
    EXPECT_EQ(whole.accuracies.size(), 4U);
    std::vector<std::vector<OpId>> cuts;
    for (const OpId position : positions_) cuts.push_back({0, position});
    for (std::size_t i = 0; i + 4 < positions_.size(); i += 2)
      cuts.push_back({0, positions_[i], positions_[i + 4]});
    for (const std::vector<OpId>& begins : cuts) {
      const PipelineResult cut = run(begins, micro_batches);
      EXPECT_EQ(cut.losses, whole.losses) << testing::PrintToString(begins);
      EXPECT_EQ(cut.accuracies, whole.accuracies) << testing::PrintToString(begins);
      EXPECT_TRUE(same_state(cut.state, whole.state)) << testing::PrintToString(begins);
    }
  }
}

// Though micro-batches hold different numbers of positions that count.
TEST_F(SeveralLosses, MicroBatchesOnlySplitTheSums) {
  const PipelineResult one = run({0}, 1);
  for (const int micro_batches : {2, 3, 16}) {
    const PipelineResult several = run({0}, micro_batches);
    for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(several.losses[i], one.losses[i], 1e-3);
    EXPECT_EQ(several.accuracies.size(), one.accuracies.size());
  }
  EXPECT_NEAR(run({0}, 16).losses[0], one.losses[0], 1e-6);
}

TEST_F(SeveralLosses, FilesHaveAColumnForEach) {
  const PipelineResult result = run({0, positions_[3], positions_[7]}, 2);
  std::string heading;
  const auto losses = columns_of(folder_.path() / "losses.txt", heading);
  EXPECT_EQ(heading, "# loss loss.early_out.cross_entropy loss.late_out.bce_with_logits loss.copy_out.mse");
  ASSERT_EQ(losses.size(), 8U);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    ASSERT_EQ(losses[i].size(), 4U);
    EXPECT_NEAR(losses[i][0], losses[i][1] + 0.5 * losses[i][2] + 0.25 * losses[i][3], 1e-6);
    EXPECT_NEAR(losses[i][0], result.losses[i], 1e-6);
  }
  EXPECT_EQ(columns_of(folder_.path() / "val_losses.txt", heading).size(), 4U);
  const auto accuracies = columns_of(folder_.path() / "val_accuracies.txt", heading);
  EXPECT_EQ(heading, "# loss.early_out.cross_entropy");
  ASSERT_EQ(accuracies.size(), 4U);
  EXPECT_NEAR(accuracies.back().at(0), result.accuracies.back(), 1e-3);
}

TEST_F(SeveralLosses, WithoutClassIndicesThereIsNoAccuracy) {
  settings_.loss = LossSettings({two_headed_loss().terms[1], two_headed_loss().terms[2]});
  const PipelineResult result = run({0, positions_[5]}, 1);
  EXPECT_TRUE(result.accuracies.empty());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "val_accuracies.txt"));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "val_losses.txt"));
}

TEST_F(SeveralLosses, WhatDoesNotFitIsNamed) {
  const auto problem = [&](LossSettings loss) {
    settings_.loss = std::move(loss);
    try {
      run({0}, 1);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(problem("mse"),
              HasSubstr("does not say which output of the model it takes; there are: early_out, "
                        "late_out, copy_out"));
  LossTerm term{.name = "mse", .output = "nothing", .target = "left"};
  EXPECT_THAT(problem(LossSettings({term})), HasSubstr("the model has no output 'nothing'"));
  term.output = "late_out";
  EXPECT_THAT(problem(LossSettings({term})), HasSubstr("targets of f32[1, 6] for predictions of f32[1, 5]"));
  term.target = "answer";
  EXPECT_THAT(
      problem(LossSettings({term})),
      HasSubstr("the data set has no tensor for the target 'answer'; it has: answers f32[batch, 5], class"));
}

}  // namespace
}  // namespace rookery
