#include "node/machine.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <mutex>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/planner/planner.hpp"
#include "clusterize/planner/write_plan.hpp"
#include "clusterize/task/make_task.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/graph/state/initialize.hpp"
#include "node/sockets/address.hpp"
#include "tests/support/repository.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

// A plan for two machines of three stages each.
class MachineTest : public testing::Test {
 protected:
  MachineTest() {
    std::filesystem::create_directory_symlink(kNodeData / "datasets", folder() / "datasets");
    TrainingSettings settings;
    settings.micro_batches = 2;
    settings.schedule.name = "interleaved";
    settings.schedule.chunks = 3;
    const TrainingTask task = make_task(settings, folder());
    Json pool = Json::object();
    for (int i = 0; i < 2; ++i) {
      pool[std::to_string(i)] = {{"IP", fmt::format("127.0.0.1:{}", 8080 + i)},
                                 {"benchmarks", {{"ram", 8}, {"bandwidth", 1000}}}};
    }
    const NodePool nodes = NodePool::from_json(pool, "node_configs.json");
    write_plan(folder(), task, make_plan(task, nodes, {.min_nodes = 2}), initial_state(task.graph, 42));
  }

  const std::filesystem::path& folder() const { return scratch_.path(); }
  NodeOptions options() const { return {.name = "node_0", .node_data = folder()}; }
  std::vector<std::string> nodes() const { return nodes_of_machine(folder(), "node_0"); }

 private:
  ScratchFolder scratch_;
};

TEST_F(MachineTest, NodesHaveTheOptionsOfTheFirstButForWhatIsTheirOwn) {
  NodeOptions first = options();
  first.listen = "0.0.0.0:7000";
  first.trace = "traces/own.json";
  first.slow_network = std::make_shared<SlowNetwork>(NetworkLimits{.mbps = 300});
  std::map<std::string, NodeOptions> had;
  std::mutex mutex;
  run_nodes(nodes(), first, [&](const NodeOptions& own, const std::function<void()>& made) {
    {
      const std::scoped_lock lock(mutex);
      had[own.name] = own;
    }
    made();
  });
  ASSERT_EQ(had.size(), 3U);
  const auto port_of = [&](const std::string& node) {
    return Address::parse(read_metadata(folder(), node).address).port;
  };
  EXPECT_EQ(had.at("node_0").listen, "0.0.0.0:7000");
  for (const char* node : {"node_0.1", "node_0.2"}) {
    EXPECT_EQ(Address::parse(had.at(node).listen).port, 7000 + port_of(node) - port_of("node_0"));
    EXPECT_EQ(had.at(node).turn, had.at("node_0").turn);
    EXPECT_EQ(had.at(node).slow_network, first.slow_network);
  }
  EXPECT_NE(had.at("node_0").turn, nullptr);
  EXPECT_EQ(had.at("node_0").trace, "traces/own.json");
  EXPECT_EQ(had.at("node_0.2").trace, "traces/own.2.json");
}

TEST_F(MachineTest, NoneRunsBeforeAllAreMade) {
  std::atomic<int> making = 0;
  std::atomic<int> made_count = 0;
  run_nodes(nodes(), options(), [&](const NodeOptions& /*own*/, const std::function<void()>& made) {
    EXPECT_EQ(++making, 1);
    --making;
    ++made_count;
    made();
    EXPECT_EQ(made_count, 3);
  });
}

TEST_F(MachineTest, APortThatThereIsNotIsRefused) {
  const auto listen_of_second = [&](const std::string& listen) {
    NodeOptions first = options();
    first.listen = listen;
    std::string found;
    run_nodes(nodes(), first, [&](const NodeOptions& own, const std::function<void()>& made) {
      if (own.name == "node_0.1") found = own.listen;
      made();
    });
    return found;
  };
  EXPECT_EQ(listen_of_second("0.0.0.0:0"), "0.0.0.0:0");
  EXPECT_THROW(listen_of_second("0.0.0.0:65000"), ConfigError);
}

// The others end, and what is told is why.
TEST_F(MachineTest, OneThatCannotBeMadeEndsAll) {
  std::atomic<int> ran = 0;
  const auto run = [&](const NodeOptions& own, const std::function<void()>& made) {
    if (own.name == "node_0.1") throw TransportError("the port is taken");
    made();
    ++ran;
  };
  try {
    run_nodes(nodes(), options(), run);
    FAIL() << "no error";
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the port is taken"));
  }
  EXPECT_EQ(ran, 0);
}

TEST_F(MachineTest, OfOneNodeRunsItAsItIs) {
  const NodeOptions alone = options();
  run_nodes({"node_0"}, alone, [&](const NodeOptions& own, const std::function<void()>& made) {
    made();
    EXPECT_EQ(own.turn, nullptr);
  });
}

}  // namespace
}  // namespace rookery
