#include "clusterize/plan/plan_weights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/graph/stage.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

namespace fs = std::filesystem;

class WeightsOfClusters : public testing::Test {
 protected:
  // Of clusters that begin stages at these cut positions.
  void write(const std::vector<std::vector<std::size_t>>& cuts) {
    const std::vector<OpId> positions = cut_positions(task_.graph);
    for (const std::vector<std::size_t>& at : cuts) {
      std::vector<OpId> begins{0};
      for (const std::size_t position : at) begins.push_back(positions[position]);
      stages_.push_back(cut(task_.graph, begins));
    }
    PlanWeights weights(stages_, state_, "0123456789abcdef");
    for (std::size_t cluster = 0; cluster < stages_.size(); ++cluster) {
      for (const Stage& stage : stages_[cluster]) {
        make_directories(place(cluster, stage));
        files_[place(cluster, stage)] = weights.put(place(cluster, stage), stage.graph);
      }
    }
  }
  fs::path place(std::size_t cluster, const Stage& stage) const {
    return folder_.path() / fmt::format("{}_{}", cluster, stage.index);
  }

  const TrainingTask task_ = cnn_task();
  const StateDict state_ = initial_state(task_.graph, 42);
  std::vector<std::vector<Stage>> stages_;
  std::map<fs::path, WeightsFiles> files_;
  ScratchFolder folder_;
};

TEST_F(WeightsOfClusters, TakeRoomOnceHoweverTheyAreCut) {
  write({{}, {3}, {2, 5}, {3}, {1, 2, 3}});
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : state_) bytes += tensor.view().bytes().size();
  std::set<std::string> tensors;
  std::uint64_t written = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
    if (entry.is_directory()) continue;
    EXPECT_TRUE(is_weights_file(entry.path().filename())) << entry.path();
    const SafetensorsReader reader(entry.path());
    const auto [first, is_new] = tensors.insert(reader.types().begin()->first);
    if (!is_new) continue;  // a link, as the next test sees
    for (const auto& [name, extent] : reader.extents()) written += extent.bytes;
  }
  EXPECT_EQ(written, bytes);
}

TEST_F(WeightsOfClusters, EveryStageHasItsOwn) {
  write({{}, {3}, {2, 5}});
  for (std::size_t cluster = 0; cluster < stages_.size(); ++cluster) {
    for (const Stage& stage : stages_[cluster]) {
      std::set<std::string> expected;
      for (const auto& ids : {stage.graph.parameters(), stage.graph.buffers()})
        for (const ValueId id : ids) expected.insert(stage.graph.value(id).name);
      std::set<std::string> found;
      for (const auto& [file, extents] : files_.at(place(cluster, stage))) {
        const SafetensorsFile read = read_safetensors(place(cluster, stage) / file);
        EXPECT_EQ(read.metadata.at("plan_id"), "0123456789abcdef");
        EXPECT_EQ(read.tensors.size(), extents.size());
        for (const auto& [name, tensor] : read.tensors) {
          EXPECT_TRUE(found.insert(name).second) << name;
          EXPECT_TRUE(std::ranges::equal(tensor.view().bytes(), state_.at(name).view().bytes())) << name;
        }
      }
      EXPECT_EQ(found, expected);
    }
  }
  // The second cluster's first stage is the third one's first and, in part, its second.
  EXPECT_EQ(fs::hard_link_count(place(2, stages_[2][0]) / "submod.safetensors"), 3U);
}

TEST_F(WeightsOfClusters, OneClusterHasAFileAStage) {
  write({{2, 5}});
  for (const Stage& stage : stages_[0]) {
    const WeightsFiles& files = files_.at(place(0, stage));
    EXPECT_LE(files.size(), 1U);
    for (const auto& [name, extents] : files) EXPECT_EQ(name, "submod.safetensors");
  }
}

TEST_F(WeightsOfClusters, OfATensorThatIsNotThereAreRefused) {
  const std::vector<std::vector<Stage>> stages{cut(task_.graph, std::vector<OpId>{0})};
  StateDict state = initial_state(task_.graph, 42);
  const std::string name = state.begin()->first;
  state.erase(state.begin());
  PlanWeights weights(stages, state, "0123456789abcdef");
  EXPECT_THAT(error_of([&] { weights.put(folder_.path(), stages[0][0].graph); }),
              testing::HasSubstr(fmt::format("no weights for '{}'", name)));
}

TEST(WeightsFile, IsKnownByItsName) {
  for (const char* name : {"submod.safetensors", "submod.1.safetensors", "submod.12.safetensors"})
    EXPECT_TRUE(is_weights_file(name)) << name;
  for (const char* name : {"trained.safetensors", "submod..safetensors", "submod.x.safetensors", "submod.1",
                           "../submod.safetensors", "submod.safetensors.1", "submod1.safetensors"})
    EXPECT_FALSE(is_weights_file(name)) << name;
}

}  // namespace
}  // namespace rookery
