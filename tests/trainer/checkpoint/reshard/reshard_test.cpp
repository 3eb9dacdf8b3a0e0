// A run that was killed goes on in another cut, from parts that lie anywhere.
#include "trainer/checkpoint/reshard/reshard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/on_all_nodes.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/repository.hpp"
#include "trainer/checkpoint/checkpointer.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

constexpr const char* kReshardedPlan = "0123456789abcdef";
constexpr int kParts = 3;
constexpr std::int64_t kKilledAt = 7;

// cnn_net on the digits: 12 steps in 3 epochs, a checkpoint every 2 steps by three stages, killed in step 7.
class Reshard : public testing::Test {
 protected:
  Reshard() {
    settings_.epochs = 3;
    settings_.batch_size = 300;
    settings_.checkpoint_every = "2 steps";
    for (int stage = 0; stage < kParts; ++stage) folders_.push_back(folder_.path());
    EXPECT_THROW(train(kParts, std::nullopt), DataError);
  }

  // A run of so many stages: the first one, which is killed, or one that goes on from `point`.
  PipelineResult train(int stages, const std::optional<ResumePoint>& point) {
    PipelineOptions options;
    options.make_trainer_options = [&](const Stage& stage, Executable& executable, Link& link,
                                       TrainerOptions made) {
      const std::filesystem::path& node_data = folders_.at(stage.index);
      if (point) {
        made.from = reshard(*point,
                            {.node_data = node_data,
                             .sees_samples = stage.is_root() || stage.is_leaf(),
                             .needs = executable.training_state(),
                             .may_have = {}},
                            Agreement(link, stage.index, stages));
        if (stage.is_leaf()) from_ = made.from->step;
        return made;
      }
      auto checkpoints = std::make_shared<Checkpointer>(
          CheckpointOwner{node_data, kReshardedPlan, stage.index, stages}, settings_, KernelChoice(),
          executable, Agreement(link, stage.index, stages), RunCourse{.steps = 12});
      made.between_steps = [checkpoints](const RunState& now, bool is_end) {
        checkpoints->between_steps(now, is_end);
        if (now.step == kKilledAt) throw DataError("killed");
      };
      return made;
    };
    const Graph model = cnn_net();
    return run_pipeline(model, even_cuts(model, settings_.loss, *digits_, stages), settings_, *digits_,
                        options);
  }

  std::filesystem::path part(const std::filesystem::path& node_data, int stage, std::int64_t step) const {
    return part_path({node_data, kReshardedPlan, stage, kParts}, step);
  }

  // The parts of stage p go to the machine of stage (p + shift) % stages of the next run, and nowhere else.
  void scatter(int stages, int shift) {
    folders_.clear();
    for (int stage = 0; stage < stages; ++stage) folders_.push_back(folder_.path() / std::to_string(stage));
    for (int number = 0; number < kParts; ++number) {
      const std::filesystem::path& place = folders_[(number + shift) % stages];
      for (const std::int64_t step : {2, 4, 6}) {
        make_directories(part(place, number, step).parent_path());
        std::filesystem::rename(part(folder_.path(), number, step), part(place, number, step));
      }
    }
  }

  void expect_goes_on_to_the_same(int stages, std::int64_t from) {
    folders_.resize(stages, folders_.front());
    const PipelineResult rest = train(stages, point_);
    EXPECT_EQ(from_, from);
    EXPECT_EQ(rest.losses, std::vector<double>(whole_.losses.begin() + from, whole_.losses.end()));
    EXPECT_TRUE(same_state(rest.state, whole_.state));
  }

  std::string error_of(int stages) {
    folders_.resize(stages, folders_.front());
    try {
      train(stages, point_);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }

  const ScratchFolder folder_;
  std::vector<std::filesystem::path> folders_;  // node_data, by stage
  const std::unique_ptr<Dataset> digits_ = open_dataset("digits", kNodeData);
  TrainingSettings settings_;
  ResumePoint point_{.plan_id = kReshardedPlan, .stages = kParts, .step = 6};
  std::int64_t from_ = -1;
  const PipelineResult whole_ = [this] {
    const Graph model = cnn_net();
    TrainingSettings settings;
    settings.epochs = 3;
    settings.batch_size = 300;
    return run_pipeline(model, std::vector<OpId>{0}, settings, *digits_);
  }();
};

TEST_F(Reshard, GoesOnInAnyCut) {
  for (const int stages : {1, 2, 3, 4, 5}) expect_goes_on_to_the_same(stages, 6);
}

TEST_F(Reshard, OnMachinesThatShareNoFolder) {
  scatter(2, 1);
  expect_goes_on_to_the_same(2, 6);
}

TEST_F(Reshard, WhereEachStageHasWhatOthersNeed) {
  scatter(3, 1);
  expect_goes_on_to_the_same(3, 6);
}

TEST_F(Reshard, FromAnEarlierStep) {
  point_.step = 4;
  expect_goes_on_to_the_same(2, 4);
}

TEST_F(Reshard, WhereAPartIsMissingTheOneBeforeIsTaken) {
  scatter(2, 0);
  std::filesystem::remove(part(folders_[1], 1, 6));
  expect_goes_on_to_the_same(2, 4);
}

TEST_F(Reshard, WhereAPartIsDamagedTheOneBeforeIsTaken) {
  scatter(2, 1);
  const std::filesystem::path path = part(folders_[1], 2, 6);
  std::string bytes = read_file(path, 1 << 24);
  bytes[bytes.size() * 3 / 4] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  expect_goes_on_to_the_same(2, 4);
}

TEST_F(Reshard, ThePartsThatNobodyHasAreNamed) {
  for (const std::int64_t step : {2, 4, 6}) std::filesystem::remove(part(folder_.path(), 1, step));
  EXPECT_THAT(error_of(2),
              HasSubstr("the part of stage 1 of 3 of the checkpoint of step 6 of plan 0123456789abcdef"));
}

TEST_F(Reshard, ATensorThatNoPartHasIsNamed) {
  settings_.optimizer = optimizer_defaults("sgd");
  settings_.optimizer.momentum = 0.9;
  EXPECT_THAT(error_of(2), HasSubstr("has no optimizer/momentum"));
}

// Every stage with a node_data of its own, which has empty files for parts.
TEST(NewestOfACluster, IsThatOfWhichAllItsStagesHaveTheirPart) {
  const ScratchFolder folder;
  const auto owner = [&](int cluster, int stage, int stages) {
    return CheckpointOwner{folder.path() / fmt::format("{}_{}", cluster, stage), kReshardedPlan, stage,
                           stages, cluster};
  };
  const auto put = [&](const CheckpointOwner& of, std::int64_t step) {
    make_directories(part_path(of, step).parent_path());
    write_file(part_path(of, step), "");
  };
  const std::vector<int> stages{2, 3, 1};
  const auto newest = [&] {
    const auto found = on_all<std::optional<ResumePoint>>(stages, [&](Agreement& agreement, int cluster) {
      return newest_of_a_cluster(owner(cluster, agreement.stage(), agreement.stages()), agreement);
    });
    for (const auto& of_cluster : found)
      for (const auto& of_stage : of_cluster) EXPECT_EQ(of_stage, found[0][0]);
    return found[0][0];
  };
  EXPECT_EQ(newest(), std::nullopt);
  put(owner(0, 0, 2), 4);
  EXPECT_EQ(newest(), std::nullopt);  // the other stage has none
  for (int stage = 0; stage < 3; ++stage) put(owner(1, stage, 3), 4);
  EXPECT_EQ(newest(), (ResumePoint{.plan_id = kReshardedPlan, .stages = 3, .step = 4, .cluster = 1}));
  put(owner(2, 0, 1), 6);
  EXPECT_EQ(newest(), (ResumePoint{.plan_id = kReshardedPlan, .stages = 1, .step = 6, .cluster = 2}));
  put(owner(0, 1, 2), 6);
  put(owner(0, 0, 2), 6);
  EXPECT_EQ(newest(), (ResumePoint{.plan_id = kReshardedPlan, .stages = 2, .step = 6, .cluster = 0}));
}

}  // namespace
}  // namespace rookery
