#include "node/node.hpp"

#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/plan/trained_file.hpp"
#include "clusterize/planner/planner.hpp"
#include "clusterize/planner/write_plan.hpp"
#include "clusterize/task/make_task.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/json.hpp"
#include "models/graph/state/initialize.hpp"
#include "tests/support/free_ports.hpp"
#include "tests/support/repository.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

// The digits job on two nodes, in threads of this process.
class NodeTest : public testing::Test {
 protected:
  NodeTest() {
    std::filesystem::create_directory_symlink(kNodeData / "datasets", folder() / "datasets");
    TrainingSettings settings;
    settings.epochs = 2;
    const TrainingTask task = make_task(settings, folder());
    Json pool = Json::object();
    for (const int port : free_ports(2)) {
      pool[std::to_string(pool.size())] = {{"IP", fmt::format("127.0.0.1:{}", port)},
                                           {"benchmarks", {{"ram", 8}, {"bandwidth", 1000}}}};
    }
    const NodePool nodes = NodePool::from_json(pool, "node_configs.json");
    write_plan(folder(), task, make_plan(task, nodes, {.min_nodes = 2}), initial_state(task.graph, 42));
  }

  const std::filesystem::path& folder() const { return scratch_.path(); }

  // What the run of this node says when it fails; empty when it does not.
  std::string run(const std::string& name, const std::function<void(Trainer&)>& loop) const {
    try {
      Node({.name = name, .node_data = folder(), .output = folder()}).run(loop);
    } catch (const std::exception& error) {
      return error.what();
    }
    return {};
  }

  bool is_trained(const std::string& name) const {
    return std::filesystem::exists(trained_path(folder(), read_metadata(folder(), name)));
  }

 private:
  ScratchFolder scratch_;
};

// A peer that fails after the last step takes nobody's weights with it, its own included.
TEST_F(NodeTest, WhatIsTrainedToTheEndIsSavedWhateverElseFails) {
  std::promise<std::string> failed;
  std::shared_future<std::string> failure = failed.get_future().share();
  std::jthread other([&] {
    failed.set_value(run("node_1", [](Trainer& trainer) {
      trainer.run();
      throw DataError("broken");
    }));
  });
  const std::string end = run("node_0", [&](Trainer& trainer) {
    trainer.run();
    failure.wait();
  });
  EXPECT_THAT(failure.get(), testing::HasSubstr("this node finished and saved its weights, but: broken"));
  EXPECT_THAT(end,
              testing::AllOf(testing::HasSubstr("this node finished and saved its weights, but node_1 ("),
                             testing::HasSubstr("failed: broken")));
  EXPECT_TRUE(is_trained("node_0"));
  EXPECT_TRUE(is_trained("node_1"));
}

TEST_F(NodeTest, WhatIsNotTrainedToTheEndIsNotSaved) {
  std::string failure;
  {
    std::jthread other([&] {
      failure = run("node_1", [](Trainer& trainer) {
        trainer.train_epoch(0);
        throw DataError("broken");
      });
    });
    EXPECT_THAT(run("node_0", &Trainer::run), testing::HasSubstr("broken"));
  }
  EXPECT_EQ(failure, "broken");
  EXPECT_FALSE(is_trained("node_0"));
  EXPECT_FALSE(is_trained("node_1"));
}

TEST_F(NodeTest, DataThatIsNotWhatWasPlannedIsRefused) {
  const auto fewer = open_dataset("sorter?samples=100", folder());
  EXPECT_THROW(Node({.name = "node_0", .node_data = folder(), .output = folder(), .dataset = fewer.get()}),
               ConfigError);
}

}  // namespace
}  // namespace rookery
