#include "fusion/fuse_checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion/merge.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/json.hpp"
#include "models/io/onnx/onnx.hpp"
#include "tests/fusion/trained_cluster.hpp"
#include "tests/support/damaged_file.hpp"
#include "tests/support/repository.hpp"

namespace rookery {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class FuseCheckpoint : public testing::Test {
 protected:
  FusedModel fuse() const {
    WholeCheckpoint checkpoint = open_checkpoint(cluster_.node_data(), "");
    return fuse_checkpoint(checkpoint, cluster_.node_data());
  }
  void remove_plan() const {
    for (const char* name : {"nodes", "cluster_0"}) fs::remove_all(cluster_.node_data() / name);
  }

  static std::vector<std::string> fixed(const Graph& graph) {
    std::vector<std::string> names;
    for (const Value& value : graph.values()) {
      if (value.fixed) names.push_back(value.name);
    }
    return names;
  }

  const TrainedCluster cluster_;
  TrainingSettings settings_ = cluster_.node(0).settings;
};

TEST_F(FuseCheckpoint, WritesTheSameFilesAsTheTrainedSubmodels) {
  cluster_.write_checkpoint(settings_);
  const FusedFiles expected = write_fused(fuse_cluster(cluster_.node_data(), 0), cluster_.node_data() / "a");
  remove_plan();
  const FusedFiles files = write_fused(fuse(), cluster_.node_data() / "b");
  constexpr std::uint64_t kMost = 1 << 24;
  EXPECT_EQ(read_file(files.safetensors, kMost), read_file(expected.safetensors, kMost));
  EXPECT_EQ(read_file(files.pytorch, kMost), read_file(expected.pytorch, kMost));
  EXPECT_EQ(read_file(files.onnx, kMost), read_file(expected.onnx, kMost));
}

TEST_F(FuseCheckpoint, TakesTheSettingsFromTheCheckpoint) {
  settings_.data = "csv:elsewhere.csv";
  settings_.seed = 43;
  settings_.train_fraction = 0.75;
  settings_.split = "in_order";
  settings_.loss = "cross_entropy";
  settings_.frozen = {"conv2d_1.*"};
  settings_.tied = {{"head.weight", "dense_2.weight"}};
  cluster_.write_checkpoint(settings_);
  remove_plan();
  const FusedModel fused = fuse();
  const Metadata expected{{"model", "cnn_net"},  {"data", "csv:elsewhere.csv"},
                          {"seed", "43"},        {"train_fraction", "0.75"},
                          {"split", "in_order"}, {"loss", "cross_entropy"},
                          {"step", "1700"},      {"plan_id", "0123456789abcdef"},
                          {"cluster", "0"},      {"format", "rookery.state_dict"},
                          {"version", "1"}};
  EXPECT_EQ(fused.metadata, expected);
  EXPECT_THAT(fixed(fused.graph), testing::ElementsAre("conv2d_1.weight", "conv2d_1.bias"));
  ASSERT_TRUE(fused.extras.contains("head.weight"));
  EXPECT_TRUE(std::ranges::equal(fused.extras.at("head.weight").view().bytes(),
                                 cluster_.state().at("dense_2.weight").view().bytes()));
}

TEST_F(FuseCheckpoint, OfAModelOfOnesOwnReadsItsFile) {
  write_onnx(cluster_.node_data() / "own.onnx", "own.safetensors", cnn_net(), trained_cnn_net());
  settings_.model = "own.onnx";
  cluster_.write_checkpoint(settings_);
  remove_plan();
  EXPECT_EQ(fuse().state.size(), cluster_.state().size());
  // Called with a plan that clusterize has put aside, it is still found.
  WholeCheckpoint checkpoint = open_checkpoint("nowhere", cluster_.checkpoint().string());
  EXPECT_NO_THROW(fuse_checkpoint(checkpoint, cluster_.node_data() / "kept" / "fedcba9876543210"));
  fs::remove(cluster_.node_data() / "own.onnx");
  EXPECT_THROW(fuse(), Error);
}

TEST_F(FuseCheckpoint, OfAModelThatNoNameStandsForTakesItsGraph) {
  settings_.model = "own:net";
  cluster_.write_checkpoint(settings_);
  EXPECT_THROW(fuse(), ConfigError);
  WholeCheckpoint checkpoint = open_checkpoint(cluster_.node_data(), "");
  const FusedModel fused = fuse_checkpoint(checkpoint, cnn_net());
  EXPECT_EQ(fused.state.size(), cluster_.state().size());
  EXPECT_EQ(fused.metadata.at("model"), "own:net");
}

TEST_F(FuseCheckpoint, OfAnotherModelThanItSaysItIsRefused) {
  settings_.model = "mnist_mlp";
  cluster_.write_checkpoint(settings_);
  try {
    fuse();
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr(cluster_.checkpoint().string()), HasSubstr("'conv2d_1.bias' is not in")));
  }
}

TEST_F(FuseCheckpoint, Command) {
  cluster_.write_checkpoint(settings_);
  remove_plan();
  const std::string out = (cluster_.node_data() / "trained").string();
  const std::string command = fmt::format("'{}/model_fusion' --node-data '{}' --out '{}'", kPrograms,
                                          cluster_.node_data().string(), out);
  const std::string folder = cluster_.checkpoint().string();
  for (const std::string& name : {std::string(), std::string(" 1700"), std::string("=1700"), " " + folder}) {
    const CommandResult done = run_command(fmt::format("{} --json --checkpoint{}", command, name));
    ASSERT_EQ(done.exit_code, 0) << done.output;
    const Json report = Json::parse(done.output);
    EXPECT_EQ(report.at("step"), 1700) << name;
    EXPECT_EQ(report.at("checkpoint"), folder) << name;
    EXPECT_EQ(report.at("tensors"), 23) << name;
    EXPECT_TRUE(fs::remove(out + "/trained_state_dict.safetensors")) << name;
  }
  EXPECT_THAT(run_command(command + " --checkpoint").output,
              HasSubstr(fmt::format("Joined cnn_net of checkpoint {}, trained for 1700 steps: 23", folder)));
  EXPECT_EQ(run_command(command + " --checkpoint 1700 1800").exit_code, 2);
  const CommandResult other_cluster = run_command(command + " --checkpoint --cluster-id 1");
  EXPECT_EQ(other_cluster.exit_code, 2);
  EXPECT_THAT(other_cluster.output, HasSubstr("--cluster-id 1: "));
  const CommandResult none = run_command(command + " --checkpoint 1800");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.output, HasSubstr("there are those of steps 1700"));
  flip_bit(part_path({cluster_.node_data(), cluster_.node(1).plan_id, 1, 3}, 1700));
  const CommandResult damaged = run_command(command + " --checkpoint");
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_THAT(damaged.output, HasSubstr("_1_of_3.safetensors: damaged: tensor"));
}

}  // namespace
}  // namespace rookery
