#include "node/node.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/plan/trained_file.hpp"
#include "clusterize/planner/make_task.hpp"
#include "clusterize/planner/planner.hpp"
#include "clusterize/planner/write_plan.hpp"
#include "models/base/error.hpp"
#include "models/graph/initialize.hpp"
#include "node/link_options.hpp"
#include "node/node_process.hpp"
#include "node/status_exchange.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/transfers.hpp"

namespace rookery {
namespace {

// Ports that were free a moment ago.
std::vector<int> free_ports(int count) {
  std::vector<int> sockets, ports;
  for (int i = 0; i < count; ++i) {
    sockets.push_back(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(sockets.back(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    ::getsockname(sockets.back(), reinterpret_cast<sockaddr*>(&address), &size);
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int socket : sockets) ::close(socket);
  return ports;
}

// The digits job on two nodes, in threads of this process.
class NodeTest : public testing::Test {
 protected:
  NodeTest() {
    std::filesystem::create_directory_symlink(ROOKERY_SOURCE_DIR "/node_data/datasets",
                                              folder() / "datasets");
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

// With what a link may have under way a stage never waits for a peer that waits for it.
TEST_F(NodeTest, BudgetsHoldTwoOfEachTransfer) {
  const NodeMetadata metadata = read_metadata(folder(), "node_0");
  const Stage stage = read_stage(stage_folder(folder(), metadata), metadata).stage;
  const ZmqLinkOptions link = link_options({.name = "node_0", .node_data = folder()}, metadata, stage);
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t bytes = 0;
  for (const Transfer& transfer : transfers(stage, metadata.settings.batch_size)) {
    const auto size = static_cast<std::uint64_t>(transfer.bytes);
    (transfer.is_sent ? sent : received) += 2 * size;
    bytes += 2 * size;
    EXPECT_GE(link.max_message_bytes, size);
  }
  EXPECT_GT(sent, 0U);
  EXPECT_GT(received, 0U);
  EXPECT_GE(link.send_budget, sent);
  EXPECT_GE(link.receive_budget, received);
  EXPECT_GT(link.buffers.bytes(), 0U);
  EXPECT_LE(link.buffers.bytes(), bytes);
}

TEST_F(NodeTest, LinksFollowOptionsAndSettings) {
  NodeMetadata metadata = read_metadata(folder(), "node_1");
  const Stage stage = read_stage(stage_folder(folder(), metadata), metadata).stage;
  metadata.settings.peer_timeout_seconds = 1;
  metadata.settings.reconnect_grace_seconds = 3;
  NodeOptions options{.name = "node_1", .node_data = folder()};
  const ZmqLinkOptions usual = link_options(options, metadata, stage);
  EXPECT_EQ(usual.address, metadata.address);
  EXPECT_EQ(usual.stage, 1);
  EXPECT_EQ(usual.heartbeat, std::chrono::milliseconds(250));
  EXPECT_EQ(usual.reconnect_grace, std::chrono::milliseconds(1000));  // no longer than the timeout
  options.listen = "0.0.0.0:8080";
  EXPECT_EQ(link_options(options, metadata, stage).address, "0.0.0.0:8080");
}

TEST_F(NodeTest, TheProcessReadsADataSetOnce) {
  NodeProcess process({.name = "node_0", .node_data = folder()});
  const Dataset* digits = &process.dataset("digits");
  EXPECT_EQ(digits->size(), 1797);
  EXPECT_EQ(&process.dataset("digits"), digits);
  EXPECT_EQ(process.dataset("sorter").size(), 729);
  NodeProcess given({.name = "node_0", .node_data = "/nowhere", .dataset = &process.dataset("digits")});
  EXPECT_EQ(given.dataset("own:digits").size(), 1797);
}

TEST_F(NodeTest, DataThatIsNotWhatWasPlannedIsRefused) {
  const auto fewer = open_dataset("sorter?samples=100", folder());
  EXPECT_THROW(Node({.name = "node_0", .node_data = folder(), .output = folder(), .dataset = fewer.get()}),
               ConfigError);
}

// Of a cluster of one: there is nobody to tell.
TEST(StatusExchange, KeepsLossAndAccuracyBetweenWhatBringsThem) {
  std::vector<Progress> told;
  StatusExchange leaf(nullptr, true, [&](const Progress& progress) { told.push_back(progress); });
  leaf.after_update({.step = 1, .loss = 0.5}, {});
  leaf.after_validation({.step = 1, .accuracy = 90}, {});
  leaf.after_update({.step = 2, .loss = 0.25}, {});
  leaf.tell_end();
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[0].accuracy, std::nullopt);
  EXPECT_EQ(told[1].loss, 0.5);
  EXPECT_EQ(told[2].loss, 0.25);
  EXPECT_EQ(told[2].accuracy, 90);
}

TEST(StatusExchange, OthersThanTheLeafTellTheirLastStepAgainAtTheEnd) {
  std::vector<std::int64_t> steps;
  StatusExchange stem(nullptr, false, [&](const Progress& progress) { steps.push_back(progress.step); });
  stem.tell_end();
  EXPECT_TRUE(steps.empty());
  stem.after_update({.step = 7}, {});
  stem.tell_end();
  EXPECT_EQ(steps, (std::vector<std::int64_t>{7, 7}));
}

}  // namespace
}  // namespace rookery
