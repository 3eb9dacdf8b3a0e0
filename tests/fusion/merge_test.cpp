#include "fusion/merge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "clusterize/plan/node_metadata.hpp"
#include "models/base/error.hpp"
#include "models/io/checkpoint/checked_file.hpp"
#include "models/io/onnx/onnx.hpp"
#include "models/io/pytorch/pytorch.hpp"
#include "tests/fusion/trained_cluster.hpp"
#include "tests/support/damaged_file.hpp"
#include "tests/support/equal_states.hpp"
#include "tests/support/repository.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class FuseCluster : public testing::Test {
 protected:
  std::string error() {
    try {
      fuse_cluster(cluster_.node_data(), 0);
    } catch (const DataError& error) {
      return error.what();
    }
    ADD_FAILURE() << "no DataError";
    return {};
  }

  TrainedCluster cluster_;
};

TEST_F(FuseCluster, GivesTheWholeModel) {
  const FusedModel fused = fuse_cluster(cluster_.node_data(), 0);
  expect_equal(cluster_.state(), fused.state);
  EXPECT_EQ(fused.order.size(), fused.state.size());
  EXPECT_EQ(fused.order.front(), "conv2d_1.weight");
  EXPECT_EQ(fused.order[4], "bn_1.running_mean");
  EXPECT_EQ(fused.order.back(), "dense_2.bias");
  EXPECT_EQ(fused.metadata.at("model"), "cnn_net");
  EXPECT_EQ(fused.metadata.at("data"), "digits");
  EXPECT_EQ(fused.metadata.at("seed"), "42");
  EXPECT_EQ(fused.metadata.at("step"), "1700");
}

TEST_F(FuseCluster, WritesAllFiles) {
  const FusedModel fused = fuse_cluster(cluster_.node_data(), 0);
  const FusedFiles files = write_fused(fused, cluster_.node_data() / "deep" / "trained");
  const SafetensorsFile file = read_safetensors(files.safetensors);
  expect_equal(cluster_.state(), file.tensors);
  EXPECT_EQ(file.metadata, fused.metadata);
  expect_equal(cluster_.state(), read_pytorch(files.pytorch));
  const OnnxModel model = read_onnx(files.onnx);
  expect_equal(cluster_.state(), model.state);
  EXPECT_EQ(model.metadata, fused.metadata);
}

TEST_F(FuseCluster, PyTorchLoadsIt) {
  const std::string python = "/usr/bin/python3";
  if (run_command(python + " -c 'import torch'").exit_code != 0)
    GTEST_SKIP() << python << " cannot import torch";
  const FusedFiles files =
      write_fused(fuse_cluster(cluster_.node_data(), 0), cluster_.node_data() / "trained");
  const CommandResult loaded = run_command(fmt::format("{} '{}/tests/fusion/load_cnn_net.py' '{}'", python,
                                                       kRepository.string(), files.pytorch.string()));
  EXPECT_EQ(loaded.exit_code, 0) << loaded.output;
}

TEST_F(FuseCluster, MissingSubmodel) {
  std::filesystem::remove(cluster_.submodel(1));
  EXPECT_THAT(error(), AllOf(HasSubstr("node_1 has no trained submodel"),
                             HasSubstr(cluster_.submodel(1).string()), Not(HasSubstr("node_0"))));
}

TEST_F(FuseCluster, NamesEverySubmodelThatIsMissing) {
  for (const std::size_t i : {0, 1, 2}) std::filesystem::remove(cluster_.submodel(i));
  EXPECT_THAT(error(),
              AllOf(HasSubstr("node_0 has no"), HasSubstr("node_1 has no"), HasSubstr("node_2 has no")));
}

TEST_F(FuseCluster, DifferentAges) {
  write_trained(cluster_.node_data(), cluster_.node(1), cluster_.state_of(1), 1600);
  EXPECT_THAT(
      error(),
      HasSubstr("the submodels were saved at different steps: node_1 at step 1600, node_0, node_2 at step "
                "1700"));
}

TEST_F(FuseCluster, OverlappingTensors) {
  StateDict state = cluster_.state_of(2);
  state.emplace("conv2d_1.weight", cluster_.state().at("conv2d_1.weight").clone());
  write_trained(cluster_.node_data(), cluster_.node(2), state, TrainedCluster::kStep);
  EXPECT_THAT(error(), HasSubstr("'conv2d_1.weight' is in the submodels of both node_0 and node_2"));
}

TEST_F(FuseCluster, MissingTensors) {
  StateDict state = cluster_.state_of(2);
  state.erase("dense_2.bias");
  state.erase("dense_2.weight");
  write_trained(cluster_.node_data(), cluster_.node(2), state, TrainedCluster::kStep);
  EXPECT_THAT(error(),
              AllOf(HasSubstr("'dense_2.bias' is missing"), HasSubstr("'dense_2.weight' is missing")));
}

TEST_F(FuseCluster, TensorOfAnotherModel) {
  StateDict state = cluster_.state_of(2);
  state.at("dense_2.bias") = Tensor(DType::kF32, {11});
  state.emplace("dense_3.bias", Tensor(DType::kF32, {11}));
  write_trained(cluster_.node_data(), cluster_.node(2), state, TrainedCluster::kStep);
  EXPECT_THAT(error(), AllOf(HasSubstr("'dense_2.bias' is f32[11], the model has f32[10]"),
                             HasSubstr("'dense_3.bias' is not in the model")));
}

TEST_F(FuseCluster, OtherPlan) {
  NodeMetadata node = cluster_.node(1);
  node.plan_id = "fedcba9876543210";
  write_trained(cluster_.node_data(), node, cluster_.state_of(1), TrainedCluster::kStep);
  EXPECT_THAT(error(), AllOf(HasSubstr("node_1"),
                             HasSubstr("belongs to plan fedcba9876543210, but nodes/node_1.json to "
                                       "plan 0123456789abcdef")));
}

TEST_F(FuseCluster, SubmodelOfAnotherNode) {
  std::filesystem::copy_file(cluster_.submodel(0), cluster_.submodel(1),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(error(), HasSubstr("it is of node node_0, not node_1: was it copied"));
}

TEST_F(FuseCluster, OtherSamples) {
  write_trained(cluster_.node_data(), cluster_.node(0), cluster_.state_of(0), TrainedCluster::kStep, "aa");
  EXPECT_NO_THROW(fuse_cluster(cluster_.node_data(), 0));
  write_trained(cluster_.node_data(), cluster_.node(2), cluster_.state_of(2), TrainedCluster::kStep, "bb");
  EXPECT_THAT(error(), HasSubstr("trained on different samples: node_0 (digest aa), node_2 (digest bb)"));
}

TEST_F(FuseCluster, BrokenSubmodel) {
  const std::string whole = read_file(cluster_.submodel(1), 1 << 30);
  write_file(cluster_.submodel(1), whole.substr(0, whole.size() / 2));
  EXPECT_THAT(error(), AllOf(HasSubstr("node_1: "), HasSubstr("an incomplete copy?")));
}

TEST_F(FuseCluster, DamagedSubmodel) {
  flip_bit(cluster_.submodel(1));
  EXPECT_THAT(error(), AllOf(HasSubstr("node_1: " + cluster_.submodel(1).string()),
                             HasSubstr("damaged: tensor \"dense_1.weight\"")));
}

// What an older Rookery has written.
TEST_F(FuseCluster, SubmodelsWithoutChecksums) {
  const FusedModel expected = fuse_cluster(cluster_.node_data(), 0);
  for (const std::size_t i : {0, 1, 2}) {
    SafetensorsFile file = read_trained(cluster_.submodel(i));
    file.metadata["version"] = "1";
    write_safetensors(cluster_.submodel(i), file.tensors, file.metadata);
  }
  const FusedModel fused = fuse_cluster(cluster_.node_data(), 0);
  expect_equal(fused.state, expected.state);
  EXPECT_EQ(fused.metadata, expected.metadata);
}

TEST_F(FuseCluster, NotASubmodel) {
  write_safetensors(cluster_.submodel(1), cluster_.state_of(1));
  EXPECT_THAT(error(), HasSubstr("its metadata has no 'format'"));
  write_safetensors(cluster_.submodel(1), cluster_.state_of(1), {{"format", "pt"}});
  EXPECT_THAT(error(), HasSubstr("this is not a trained submodel"));
  Metadata metadata = read_trained(cluster_.submodel(0)).metadata;
  metadata["node"] = "node_1";
  metadata["stage"] = "1";
  metadata["step"] = "-1";
  write_checked(cluster_.submodel(1), views_of(cluster_.state_of(1)), metadata);
  EXPECT_THAT(error(), HasSubstr("the step '-1', which is no number"));
}

TEST_F(FuseCluster, SeveralProblemsAtOnce) {
  std::filesystem::remove(cluster_.submodel(1));
  write_trained(cluster_.node_data(), cluster_.node(2), cluster_.state_of(0), 1600);
  EXPECT_THAT(error(), AllOf(HasSubstr("node_1 has no trained submodel"), HasSubstr("node_2 at step 1600"),
                             HasSubstr("'conv2d_1.bias' is in the submodels of both node_0 and node_2")));
}

TEST_F(FuseCluster, UnknownCluster) {
  try {
    fuse_cluster(cluster_.node_data(), 3);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the plan has no cluster 3; there are: 0"));
  }
  EXPECT_THROW(fuse_cluster(cluster_.node_data() / "nowhere", 0), ConfigError);
}

TEST_F(FuseCluster, Command) {
  const std::string out = (cluster_.node_data() / "trained").string();
  const std::string command = fmt::format("'{}/model_fusion' --node-data '{}' --out '{}'", kPrograms,
                                          cluster_.node_data().string(), out);
  const CommandResult done = run_command(command);
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_THAT(done.output, HasSubstr(out + "/trained_state_dict.pt"));
  EXPECT_TRUE(std::filesystem::exists(out + "/trained_state_dict.safetensors"));
  EXPECT_THAT(run_command(command + " --json").output, HasSubstr(R"("step":1700,"tensors":23)"));
  std::filesystem::remove(cluster_.submodel(1));
  const CommandResult failed = run_command(command);
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.output, HasSubstr("model_fusion: cluster 0 cannot be fused: node_1 has no"));
  EXPECT_EQ(run_command(command + " --cluster").exit_code, 2);
}

}  // namespace
}  // namespace rookery
