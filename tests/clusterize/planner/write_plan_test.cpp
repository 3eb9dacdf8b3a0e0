#include "clusterize/planner/write_plan.hpp"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/plan/plan_lock.hpp"
#include "clusterize/plan/stage_folder.hpp"
#include "clusterize/plan/trained_file.hpp"
#include "clusterize/planner/planner.hpp"
#include "models/base/files/files.hpp"
#include "models/graph/state/initialize.hpp"
#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

// Every file below `folder` with its bytes.
std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), folder).string()] = read_file(entry.path(), 1 << 24);
  }
  return files;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

// Trained weights of a node, as its provider would write them.
void train(const fs::path& folder, const std::string& node) {
  const NodeMetadata metadata = read_metadata(folder, node);
  write_trained(folder, metadata, read_stage(stage_folder(folder, metadata), metadata).state, 5);
}

TEST(WritePlan, TheSameInputGivesTheSameBytes) {
  const ScratchFolder one;
  const ScratchFolder two;
  for (const ScratchFolder* folder : {&one, &two}) {
    const TrainingTask task = cnn_task();
    write_plan(folder->path(), task, plan(equal_nodes(7), task), initial_state(task.graph, 42),
               std::string(32, '0'));
  }
  EXPECT_EQ(files_of(one.path()), files_of(two.path()));
  EXPECT_EQ(files_of(one.path()).count("plan.json"), 1U);
  EXPECT_EQ(files_of(one.path()).count("cluster_1/host8083:8083/model_inputs.json"), 1U);
}

TEST(WritePlan, StagesThatAreAlikeAreOneFile) {
  const ScratchFolder folder;
  const TrainingTask task = cnn_task();
  const SearchOptions options{.min_nodes = 1, .clusters = 3};
  const Planned planned = plan(equal_nodes(3), task, options);
  ASSERT_EQ(planned.plan.clusters.size(), 3U);
  write_plan(folder.path(), task, planned, initial_state(task.graph, 42));
  for (const NodeMetadata& node : read_all_metadata(folder.path())) {
    const fs::path stage = stage_folder(folder.path(), node);
    for (const char* name : {"submod.onnx", "submod.safetensors", "model_inputs.json"})
      EXPECT_EQ(fs::hard_link_count(stage / name), 3U) << stage / name;
    EXPECT_EQ(read_stage(stage, node).stage.index, 0);
  }
  // Another plan takes its place, and leaves nothing of it.
  write_plan(folder.path(), task, plan(equal_nodes(2), task, {.min_nodes = 1, .clusters = 2}),
             initial_state(task.graph, 42));
  EXPECT_EQ(fs::hard_link_count(stage_folder(folder.path(), read_metadata(folder.path(), "node_0")) /
                                "submod.onnx"),
            2U);
}

// But for the token, which nobody can compute.
TEST(WritePlan, EveryPlanHasATokenOfItsOwn) {
  std::set<std::string> tokens;
  for (int i = 0; i < 3; ++i) {
    const ScratchFolder folder;
    const TrainingTask task = cnn_task();
    write_plan(folder.path(), task, plan(equal_nodes(3), task), initial_state(task.graph, 42));
    const std::string token = read_metadata(folder.path(), "node_0").token;
    EXPECT_EQ(read_metadata(folder.path(), "node_2").token, token);
    tokens.insert(token);
  }
  EXPECT_EQ(tokens.size(), 3U);
}

TEST(WritePlan, AFolderHoldsOnePlanWithAllItsFiles) {
  const ScratchFolder folder;
  const TrainingTask task = cnn_task();
  const Planned three = plan(equal_nodes(3), task);
  EXPECT_FALSE(holds_plan(folder.path(), three.plan));
  write_plan(folder.path(), task, three, initial_state(task.graph, 42));
  EXPECT_TRUE(holds_plan(folder.path(), three.plan));
  EXPECT_FALSE(holds_plan(folder.path(), plan(equal_nodes(2), task).plan));
  fs::remove(metadata_path(folder.path(), "node_1"));
  EXPECT_FALSE(holds_plan(folder.path(), three.plan));
}

TEST(WritePlan, ReplacesTheOlderPlanAndNothingElse) {
  const ScratchFolder folder;
  const TrainingTask task = cnn_task();
  const StateDict state = initial_state(task.graph, 42);
  write_file(folder.path() / "train.json", "{}");
  fs::create_directories(folder.path() / "cluster_notes");
  EXPECT_TRUE(write_plan(folder.path(), task, plan(equal_nodes(6), task), state).empty());
  EXPECT_TRUE(write_plan(folder.path(), task, plan(equal_nodes(2), task), state).empty());
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre(".plan.lock", "cluster_0", "cluster_notes", "nodes", "plan.json", "train.json"));
  EXPECT_EQ(read_all_metadata(folder.path()).size(), 2U);
}

TEST(WritePlan, KeepsAnOlderPlanThatWasTrained) {
  const ScratchFolder folder;
  const TrainingTask task = cnn_task();
  const StateDict state = initial_state(task.graph, 42);
  const Planned three = plan(equal_nodes(3), task);
  for (const char* name : {"", ".2"}) {  // a second time, too
    write_plan(folder.path(), task, three, state);
    train(folder.path(), "node_0");
    const auto before = files_of(folder.path());
    const auto kept = write_plan(folder.path(), task, plan(equal_nodes(2), task), state);
    const fs::path place = folder.path() / "kept" / (three.plan.plan_id + name);
    EXPECT_THAT(kept, ElementsAre(place));
    for (const auto& [file, text] : files_of(place)) EXPECT_EQ(before.at(file), text) << file;
    EXPECT_TRUE(fs::exists(trained_path(place, read_metadata(place, "node_0"))));
    EXPECT_FALSE(fs::exists(trained_path(folder.path(), read_metadata(folder.path(), "node_0"))));
  }
}

// The same plan with other predictions, or with a file that is broken.
TEST(WritePlan, LeavesWhatWasTrainedForTheSamePlan) {
  const ScratchFolder folder;
  const TrainingTask task = cnn_task();
  const StateDict state = initial_state(task.graph, 42);
  Planned three = plan(equal_nodes(3), task);
  write_plan(folder.path(), task, three, state);
  train(folder.path(), "node_0");
  const fs::path trained = trained_path(folder.path(), read_metadata(folder.path(), "node_0"));
  const std::string weights = read_file(trained, 1 << 24);
  fs::remove(trained.parent_path() / "submod.safetensors");
  EXPECT_FALSE(holds_plan(folder.path(), three.plan));
  three.plan.predicted_samples_per_second += 1;
  EXPECT_TRUE(write_plan(folder.path(), task, three, state).empty());
  EXPECT_TRUE(holds_plan(folder.path(), three.plan));
  EXPECT_EQ(read_file(trained, 1 << 24), weights);
  EXPECT_EQ(names_in(folder.path()).count("kept"), 0U);
}

// Killed at each of its moves.
TEST(WritePlan, AfterOneThatWasKilledNothingTrainedIsLost) {
  const TrainingTask task = cnn_task();
  const StateDict state = initial_state(task.graph, 42);
  const Planned three = plan(equal_nodes(3), task);
  const Planned two = plan(equal_nodes(2), task);
  const std::vector<std::string> entries{"cluster_0", "nodes", "plan.json"};
  for (std::size_t moves = 0; moves <= 6; ++moves) {
    const ScratchFolder folder;
    const ScratchFolder elsewhere;
    write_plan(folder.path(), task, three, state);
    train(folder.path(), "node_0");
    write_plan(elsewhere.path(), task, two, state);
    fs::create_directories(folder.path() / ".old_plan");
    fs::create_directories(folder.path() / ".new_plan");
    for (std::size_t i = 0; i < 3; ++i) {
      if (i < moves) fs::rename(folder.path() / entries[i], folder.path() / ".old_plan" / entries[i]);
      fs::rename(elsewhere.path() / entries[i],
                 folder.path() / (i + 3 < moves ? "" : ".new_plan") / entries[i]);
    }
    const auto kept = write_plan(folder.path(), task, two, state);
    EXPECT_THAT(kept, ElementsAre(folder.path() / "kept" / three.plan.plan_id)) << moves;
    EXPECT_TRUE(fs::exists(trained_path(kept[0], read_metadata(kept[0], "node_0"))));
    EXPECT_EQ(read_all_metadata(kept[0]).size(), 3U);
    EXPECT_TRUE(holds_plan(folder.path(), two.plan));
    EXPECT_THAT(names_in(folder.path()),
                ElementsAre(".plan.lock", "cluster_0", "kept", "nodes", "plan.json"));
  }
}

TEST(WritePlan, APlanThatIsUsedStays) {
  const ScratchFolder folder;
  const TrainingTask task = cnn_task();
  const StateDict state = initial_state(task.graph, 42);
  write_plan(folder.path(), task, plan(equal_nodes(3), task), state);
  const auto before = files_of(folder.path());
  {
    const FileLock one = lock_for_running(folder.path(), nullptr);
    const FileLock another = lock_for_running(folder.path(), nullptr);
    EXPECT_THAT(error_of([&] { write_plan(folder.path(), task, plan(equal_nodes(2), task), state); }),
                HasSubstr(fmt::format("its plan is in use by process {} (test_clusterize)", ::getpid())));
    EXPECT_EQ(files_of(folder.path()), before);
  }
  write_plan(folder.path(), task, plan(equal_nodes(2), task), state);
  EXPECT_EQ(read_all_metadata(folder.path()).size(), 2U);
}

TEST(WritePlan, AFailureLeavesTheOlderPlan) {
  const ScratchFolder folder;
  const TrainingTask task = cnn_task();
  StateDict state = initial_state(task.graph, 42);
  write_plan(folder.path(), task, plan(equal_nodes(3), task), state);
  const auto before = files_of(folder.path());
  state.erase("dense_2.bias");
  EXPECT_THAT(error_of([&] { write_plan(folder.path(), task, plan(equal_nodes(2), task), state); }),
              HasSubstr("dense_2.bias"));
  EXPECT_EQ(files_of(folder.path()), before);
}

}  // namespace
}  // namespace rookery
