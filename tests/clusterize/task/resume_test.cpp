// What a plan takes over from the run that it goes on with, and what it refuses to go on with.
#include "clusterize/task/resume.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "clusterize/planner/make_metadata.hpp"
#include "clusterize/planner/planner.hpp"
#include "clusterize/task/make_task.hpp"
#include "models/base/error.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/runtime/executable.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "tests/support/repository.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/checkpoint/checkpoint_part.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kPlan = "0123456789abcdef";

// A checkpoint of cnn_net that is as training with Adam leaves it after step 40, in the third epoch of ten.
class Resume : public testing::Test {
 protected:
  Resume() {
    settings_.epochs = 10;
    run_ = {.step = 40, .epoch = 2, .samples = 384, .base_rate = 0.001, .learning_rate = 0.001};
    write(40);
  }

  TrainingTask task() const { return make_task(settings_, kNodeData); }

  // As two stages do, of which the first one has the first four tensors.
  void write(std::int64_t step) {
    const TrainingTask now = task();
    const StateDict state = initial_state(now.graph, 1);
    StateDict parts[2];
    for (const auto& [name, tensor] : state) {
      StateDict& part = parts[parts[0].size() < 12 ? 0 : 1];
      part.emplace(name, tensor.clone());
      part.emplace(optimizer_key("exp_avg", name), tensor.clone());
      part.emplace(optimizer_key("exp_avg_sq", name), tensor.clone());
    }
    KernelChoice kernels[2];
    for (const auto& entry : now.kernels) kernels[entry.first < "dense_1" ? 0 : 1].insert(entry);
    run_.step = step;
    for (const int stage : {0, 1}) {
      const CheckpointOwner owner{node_data_.path(), kPlan, stage, 2};
      write_part(part_path(owner, step), owner,
                 {.run = run_, .settings = now.settings, .kernels = kernels[stage]}, views_of(parts[stage]));
    }
  }

  std::vector<std::string> resume(TrainingTask& now, const std::string& name = "") const {
    return resume_task(now, node_data_.path(), name).lines;
  }
  // That clusters with these shares cannot go on.
  std::string error_of_shares(const std::vector<std::int64_t>& shares) const {
    TrainingTask now = task();
    ClusterPlan plan{.batch_size = std::ranges::max(shares)};
    for (const std::int64_t share : shares) plan.clusters.push_back({.share = share});
    try {
      check_place(resume_task(now, node_data_.path(), "").run, now, plan);
    } catch (const Error& caught) {
      return caught.what();
    }
    return "";
  }
  // The lines for these settings.
  std::vector<std::string> lines(const std::function<void(TrainingSettings&)>& change) {
    change(settings_);
    TrainingTask now = task();
    return resume(now);
  }
  std::string error(const std::function<void(TrainingSettings&)>& change, const std::string& name = "") {
    change(settings_);
    TrainingTask now = task();
    try {
      resume(now, name);
    } catch (const Error& caught) {
      return caught.what();
    }
    return "";
  }
  std::filesystem::path part(int stage, std::int64_t step) const {
    return part_path({node_data_.path(), kPlan, stage, 2}, step);
  }

  const ScratchFolder node_data_;
  TrainingSettings settings_;
  RunState run_;
};

TEST_F(Resume, TakesPlaceAndKernels) {
  TrainingTask now = task();
  const KernelChoice before = now.kernels;
  now.kernels["conv2d_1"] = "eigen";
  EXPECT_THAT(resume(now), ElementsAre("Goes on after step 40, in epoch 3 of 10."));
  EXPECT_EQ(now.kernels, before);
  EXPECT_EQ(now.resume, (ResumePoint{.plan_id = kPlan, .stages = 2, .step = 40}));
}

TEST_F(Resume, ThePlanSaysWhatItGoesOnFrom) {
  TrainingTask fresh = task();
  TrainingTask now = task();
  resume(now);
  const Planned without = make_plan(fresh, pool_of(equal_nodes(3)), {});
  const Planned planned = make_plan(now, pool_of(equal_nodes(3)), {});
  EXPECT_NE(planned.plan.plan_id, without.plan.plan_id);
  EXPECT_EQ(to_json(planned.plan).at("resume").at("step"), 40);
  EXPECT_FALSE(to_json(without.plan).contains("resume"));
  NodeMetadata metadata = make_metadata(now, planned, 0, 0);
  metadata.token = std::string(32, '0');
  write_metadata(node_data_.path(), metadata);
  EXPECT_EQ(read_metadata(node_data_.path(), metadata.node).resume, now.resume);
}

TEST_F(Resume, TheNewestThatIsWhole) {
  write(60);
  TrainingTask now = task();
  resume(now);
  EXPECT_EQ(now.resume->step, 60);
  std::filesystem::resize_file(part(1, 60), 1000);
  resume(now);
  EXPECT_EQ(now.resume->step, 40);
  std::filesystem::remove(part(1, 60));
  resume(now);
  EXPECT_EQ(now.resume->step, 40);
}

TEST_F(Resume, OneThatIsNamed) {
  write(60);
  TrainingTask now = task();
  resume(now, "40");
  EXPECT_EQ(now.resume->step, 40);
  EXPECT_THAT(error([](TrainingSettings&) {}, "50"), HasSubstr("there are those of steps 40, 60"));
}

TEST_F(Resume, AFolderElsewhereIsBrought) {
  const ScratchFolder elsewhere;
  std::filesystem::rename(checkpoints_folder(node_data_.path()) / "40", elsewhere.path() / "saved");
  TrainingTask now = task();
  EXPECT_THAT(error([](TrainingSettings&) {}), HasSubstr("there is no checkpoint"));
  resume(now, (elsewhere.path() / "saved").string());
  EXPECT_EQ(now.resume->step, 40);
  EXPECT_TRUE(std::filesystem::exists(part(0, 40)) && std::filesystem::exists(part(1, 40)));
}

TEST_F(Resume, PartsThatOtherMachinesHaveAreNoHindrance) {
  std::filesystem::remove(part(0, 40));
  TrainingTask now = task();
  EXPECT_THAT(resume(now), Contains(HasSubstr("has the checkpoint of stage 1 of 2: the providers take")));
  EXPECT_EQ(now.resume, (ResumePoint{.plan_id = kPlan, .stages = 2, .step = 40}));
}

TEST_F(Resume, ChangedSettingsAreTold) {
  EXPECT_THAT(lines([](TrainingSettings& settings) {
                settings.epochs = 20;
                settings.optimizer.learning_rate = 0.01;
              }),
              AllOf(Contains("epochs is now 20, and was 10"), Contains(HasSubstr("optimizer is now "))));
}

TEST_F(Resume, OtherKernelsAreTold) {
  EXPECT_THAT(lines([](TrainingSettings& settings) { settings.batch_size = 128; }),
              Contains("batch_size is now 128, and was 64"));
  std::filesystem::remove(part(0, 40));
  TrainingTask now = task();
  EXPECT_THAT(resume(now),
              Contains(HasSubstr("bn_1: simd for one that is not known here): the bits will differ")));
}

TEST_F(Resume, AnotherModelIsRefused) {
  EXPECT_THAT(error([](TrainingSettings& settings) {
                settings.model = "resnet18?image_size=32&classes=10";
                settings.data = "shapes?image_size=32";
                settings.loss = loss_from_text("cross_entropy");
              }),
              AllOf(HasSubstr("model: the checkpoint has no "), HasSubstr("it is of the model cnn_net")));
}

TEST_F(Resume, AnOptimizerOfOtherStateIsRefused) {
  EXPECT_THAT(
      error([](TrainingSettings& settings) {
        settings.optimizer = optimizer_defaults("sgd");
        settings.optimizer.momentum = 0.9;
      }),
      HasSubstr(
          "optimizer: sgd keeps momentum_buffer for every parameter, of which the checkpoint of adam has "
          "only exp_avg, exp_avg_sq: keep the optimizer"));
  EXPECT_EQ(error([](TrainingSettings& settings) { settings.optimizer = optimizer_defaults("adamw"); }), "");
}

TEST_F(Resume, MicroBatchesThatAreLeftToClusterizeStay) {
  settings_.micro_batches = 4;
  write(40);
  const auto kept = [&](std::int64_t batch_size, std::optional<int> asked) {
    TrainingSettings now = settings_;
    now.batch_size = batch_size;
    now.micro_batches = asked;
    keep_micro_batches(now, node_data_.path(), "");
    return now.micro_batches;
  };
  EXPECT_EQ(kept(settings_.batch_size, {}), 4);
  EXPECT_EQ(kept(settings_.batch_size, 2), 2);
  EXPECT_EQ(kept(settings_.batch_size / 2, {}), std::nullopt);
  settings_.micro_batches = 1;
  settings_.schedule.name = "async";
  write(40);
  EXPECT_EQ(kept(settings_.batch_size, {}), std::nullopt);
}

TEST_F(Resume, APlaceBetweenStepsIsOneOfAllClusters) {
  EXPECT_EQ(error_of_shares({64}), "");
  EXPECT_EQ(error_of_shares({50, 46}), "");  // 4 steps of 96
  settings_.batch_size = 50;
  EXPECT_EQ(error_of_shares({50, 46}), "");
  EXPECT_THAT(error_of_shares({64, 64, 64, 64}),
              HasSubstr("after sample 384 of epoch 3, which no batch of 256 of 1078"));
}

TEST_F(Resume, APlaceThatTheSettingsDoNotHaveIsRefused) {
  EXPECT_THAT(
      error_of_shares({100}),
      HasSubstr("batch_size: the run goes on after sample 384 of epoch 3, which no batch of 100 of 1078"));
  EXPECT_THAT(error([](TrainingSettings& settings) {
                settings.batch_size = 64;
                settings.schedule.name = "async";
              }),
              HasSubstr("schedule: the run goes on within epoch 3"));
  EXPECT_THAT(error([](TrainingSettings& settings) {
                settings.schedule.name = "1f1b";
                settings.epochs = 1;
              }),
              HasSubstr("epochs: the run has trained 2 already: ask for more than 1"));
}

}  // namespace
}  // namespace rookery
