#include "node/run/run_network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "clusterize/simulation/planned_links.hpp"
#include "clusterize/simulation/step_program.hpp"

#include "tests/node/run/planned_clusters.hpp"
#include "tests/support/captured_log.hpp"

namespace rookery {
namespace {

MessageKey key(std::int64_t step) {
  return {.kind = MessageKind::kClusterNumbers, .step = step, .edge = "x"};
}

// Nodes 0, 1, 2 | 3, 4 | 5, each on a thread of its own; some are far from each other.
class ThreeClusters : public testing::Test {
 protected:
  static constexpr int kClusters = 3;

  ThreeClusters() {
    for (int cluster = 0; cluster < kClusters; ++cluster) {
      const auto& stages = planned_.stages[cluster];
      for (const Stage& stage : stages) {
        metadata_.push_back(make_metadata(task_, planned_, cluster, stage.index));
        metadata_.back().token = "0123456789abcdef0123456789abcdef";
        metadata_.back().settings.reconnect_grace_seconds = 0.3;
        networks_.push_back(std::make_unique<RunNetwork>(
            NodeOptions{.name = metadata_.back().node, .wait_for_peers = std::chrono::seconds(60)},
            metadata_.back(), stage));
      }
    }
    on_all([](RunNetwork& network, const NodeMetadata&) { network.join(); });
  }

  void on_all(const std::function<void(RunNetwork&, const NodeMetadata&)>& action) {
    std::vector<std::jthread> threads;
    for (std::size_t node = 0; node < networks_.size(); ++node) {
      threads.emplace_back([&, node] {
        if (networks_[node]) action(*networks_[node], metadata_[node]);
      });
    }
  }

  // What a node's pipeline and rings say of the end, each the same.
  static std::string end_of(RunNetwork& network, const NodeMetadata& metadata) {
    std::string end;
    const auto look = [&](Link* link, int from) {
      if (link == nullptr) return;
      try {
        receive_number(*link, from, key(9));
        ADD_FAILURE() << "it came";
      } catch (const TransportError& error) {
        const std::string what = error.what();
        const std::string before = what.substr(0, what.find(" (here: "));
        if (end.empty()) end = before;
        EXPECT_EQ(before, end);
      }
    };
    look(network.pipeline_network(), (metadata.stage + 1) % metadata.stages);
    for (const OpenedRing& ring : network.rings()) look(ring.link.get(), (metadata.cluster + 1) % kClusters);
    look(network.roots(), (metadata.cluster + 1) % kClusters);
    return end;
  }

  static Planned make(const TrainingTask& task) {
    Planned planned = planned_clusters(task, {{0, 4, 12}, {0, 6}, {0}});
    planned.plan.connections = {{{"node_0", "node_1"}, 3}, {{"node_3", "node_5"}, 16}};
    return planned;
  }

  const CapturedLog log_;
  const TrainingTask task_ = cnn_task();
  const Planned planned_ = make(task_);
  std::vector<NodeMetadata> metadata_;
  std::vector<std::unique_ptr<RunNetwork>> networks_;
};

TEST_F(ThreeClusters, EveryRingGoesRoundAndAllLeave) {
  on_all([](RunNetwork& network, const NodeMetadata& metadata) {
    const int next = (metadata.cluster + 1) % kClusters;
    const int before = (metadata.cluster + 2) % kClusters;
    EXPECT_EQ(network.rings().size(), metadata.rings.size());
    for (const OpenedRing& ring : network.rings()) {
      EXPECT_EQ(ring.parameters.front(), metadata.rings.at(ring.id).first_parameter);
      send_number(*ring.link, next, key(0), 100 * ring.id + metadata.cluster);
    }
    EXPECT_EQ(network.roots() != nullptr, metadata.stage == 0);
    if (network.roots() != nullptr) send_number(*network.roots(), next, key(0), metadata.cluster);
    for (const OpenedRing& ring : network.rings())
      EXPECT_EQ(receive_number(*ring.link, before, key(0)), 100 * ring.id + before);
    if (network.roots() != nullptr) {
      EXPECT_EQ(receive_number(*network.roots(), before, key(0)), before);
    }
    EXPECT_EQ(network.pipeline_network() != nullptr, metadata.stages > 1);
    network.leave();
  });
}

// node_5 is all of its cluster: it has rings alone.
TEST_F(ThreeClusters, WhoFailsIsNamedByAllNodesOfAllClusters) {
  networks_[5]->stop("failed: no space left");
  const std::string name = fmt::format("node_5 ({})", metadata_[5].address);
  on_all([&](RunNetwork& network, const NodeMetadata& metadata) {
    EXPECT_EQ(end_of(network, metadata),
              (metadata.node == "node_5" ? "node_5" : name) + " failed: no space left");
  });
}

TEST_F(ThreeClusters, WhoIsGoneIsNamedByAllNodesOfAllClusters) {
  networks_[1].reset();
  const std::string name = fmt::format("node_1 ({})", metadata_[1].address);
  on_all([&](RunNetwork& network, const NodeMetadata& metadata) {
    EXPECT_EQ(end_of(network, metadata), name + " failed: it ended without saying why");
  });
}

// Two stages whose activations travel in 8 bits a number.
class CompressedPipeline : public testing::Test {
 protected:
  CompressedPipeline() {
    std::vector<std::jthread> threads;
    for (int stage = 0; stage < 2; ++stage) {
      metadata_.push_back(make_metadata(task_, planned_, 0, stage));
      metadata_.back().token = "0123456789abcdef0123456789abcdef";
      networks_.push_back(std::make_unique<RunNetwork>(
          NodeOptions{.name = metadata_.back().node, .wait_for_peers = std::chrono::seconds(60)},
          metadata_.back(), planned_.stages[0][stage]));
    }
    for (const auto& network : networks_) threads.emplace_back([&network] { network->join(); });
  }

  static TrainingTask task() {
    TrainingSettings settings;
    settings.transport.activations = "int8";
    return cnn_task(settings);
  }
  MessageKey key_of(const StageOutput& output) const { return {.edge = output.value}; }
  TensorType type_of(const StageOutput& output) const {
    const Graph& graph = planned_.stages[0][0].graph;
    return graph.types(task_.settings.batch_size)[graph.at(output.value)];
  }

  const CapturedLog log_;
  const TrainingTask task_ = task();
  const Planned planned_ = planned_clusters(task_, {{0, 4}});
  std::vector<NodeMetadata> metadata_;
  std::vector<std::unique_ptr<RunNetwork>> networks_;
};

TEST_F(CompressedPipeline, SendsTheBytesThatThePlanCounts) {
  const std::int64_t planned =
      stage_routes(planned_.stages[0], task_.settings.batch_size, encoding_of(task_))[0].activation_bytes[1];
  std::int64_t raw = 0;
  for (const StageOutput& output : planned_.stages[0][0].outputs) {
    Tensor sent(type_of(output));
    raw += static_cast<std::int64_t>(sent.type().bytes());
    for (std::byte& byte : sent.view().bytes()) byte = std::byte{0x3F};  // numbers, all of them alike
    Tensor came(sent.type());
    networks_[0]->pipeline().send(1, key_of(output), sent.view());
    networks_[1]->pipeline().receive(0, key_of(output), came.view());
    if (sent.type().dtype == DType::kF32) {
      EXPECT_NEAR(came.as<float>().back(), sent.as<float>().back(), 1e-6);
    } else {
      EXPECT_TRUE(std::ranges::equal(came.view().bytes(), sent.view().bytes())) << output.value;
    }
  }
  networks_[0]->pipeline().flush();
  EXPECT_LT(planned, raw);
  EXPECT_EQ(networks_[0]->pipeline_network()->bytes_sent().at(1), static_cast<std::uint64_t>(planned));
  EXPECT_EQ(planned_links(pool_of(equal_nodes(2)), {0, 1}, planned_.stages[0], task_.settings.batch_size,
                          encoding_of(task_))
                .front()
                .activation_bytes,
            planned);
}

TEST_F(CompressedPipeline, APayloadOfAnotherSizeIsAnErrorThatNamesNodeAndTensor) {
  const StageOutput& output = planned_.stages[0][0].outputs.front();
  const Tensor sent(DType::kU8, {100});
  networks_[0]->pipeline_network()->send(1, key_of(output), sent.view());
  Tensor came(type_of(output));
  try {
    networks_[1]->pipeline().receive(0, key_of(output), came.view());
    ADD_FAILURE() << "it was taken for " << came.type().to_string();
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("activation " + output.value),
                                             testing::HasSubstr("node_0"), testing::HasSubstr("u8[100]")));
  }
}

TEST(OneNode, HasNoNetwork) {
  const TrainingTask task = cnn_task();
  const Planned planned = planned_clusters(task, {{0}});
  RunNetwork network({.name = "node_0"}, make_metadata(task, planned, 0, 0), planned.stages[0][0]);
  network.join();
  EXPECT_EQ(network.pipeline_network(), nullptr);
  EXPECT_EQ(network.roots(), nullptr);
  EXPECT_TRUE(network.rings().empty());
  network.stop("failed: nobody hears it");
  network.leave();
}

}  // namespace
}  // namespace rookery
