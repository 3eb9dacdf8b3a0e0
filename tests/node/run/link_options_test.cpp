#include "node/run/link_options.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "models/graph/passes/loss.hpp"
#include "models/zoo/zoo.hpp"
#include "trainer/transfers.hpp"

namespace rookery {
namespace {

// The second of three stages.
class LinkOptions : public testing::Test {
 protected:
  LinkOptions() {
    Graph graph = cnn_net();
    add_loss(graph, "mse");
    stage_ = cut(graph, std::vector<OpId>{0, 3, 6}).at(1);
    metadata_.node = "node_1";
    metadata_.stage = 1;
    metadata_.stages = 3;
    metadata_.address = "127.0.0.1:8081";
  }

  Stage stage_;
  NodeMetadata metadata_;
};

// With what a link may have under way a stage never waits for a peer that waits for it.
TEST_F(LinkOptions, BudgetsHoldTwoOfEachTransfer) {
  const GroupOptions link = pipeline_options({.name = "node_1"}, metadata_, stage_);
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t bytes = 0;
  for (const Transfer& transfer : transfers(stage_, metadata_.settings.batch_size)) {
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

// A stage that runs further ahead never waits for room either.
TEST_F(LinkOptions, BudgetsGrowWithWhatIsInFlight) {
  metadata_.settings.batch_size = 1 << 16;
  metadata_.settings.micro_batches = 16;
  const GroupOptions usual = pipeline_options({.name = "node_1"}, metadata_, stage_);
  metadata_.settings.schedule.planned = {3, 2, 1};  // as without a plan
  EXPECT_EQ(pipeline_options({.name = "node_1"}, metadata_, stage_).receive_budget, usual.receive_budget);
  metadata_.settings.schedule.planned = {9, 5, 1};
  const GroupOptions more = pipeline_options({.name = "node_1"}, metadata_, stage_);
  // Stage 0 runs 4 ahead of stage 1, and that of the last, where it is 1 usually: 2 + 3 of each.
  EXPECT_EQ(more.receive_budget, usual.receive_budget / 2 * 5);
  EXPECT_EQ(more.send_budget, usual.send_budget / 2 * 5);
  EXPECT_EQ(more.buffers.bytes(), usual.buffers.bytes() / 2 * 5);
}

// What is encoded has budgets and buffers of its own size, and one more of each while it is encoded or
// decoded.
TEST_F(LinkOptions, BudgetsAreOfTheBytesThatTravel) {
  metadata_.settings.batch_size = 1 << 16;
  const GroupOptions as_they_are = pipeline_options({.name = "node_1"}, metadata_, stage_);
  metadata_.settings.transport = {.activations = "fp16", .gradients = "fp16"};
  for (const StageInput& input : stage_.inputs) metadata_.model_inputs.insert(input.value);
  const GroupOptions data = pipeline_options({.name = "node_1"}, metadata_, stage_);
  EXPECT_GT(data.max_message_bytes, as_they_are.max_message_bytes / 2) << "its inputs are the model's";
  metadata_.model_inputs.clear();
  const GroupOptions encoded = pipeline_options({.name = "node_1"}, metadata_, stage_);
  EXPECT_EQ(encoded.max_message_bytes, as_they_are.max_message_bytes / 2);
  EXPECT_LE(encoded.receive_budget, as_they_are.receive_budget / 2 + (1U << 16));
  std::uint64_t coded = 0;
  for (const std::int64_t bytes :
       coding_buffers(transfers(stage_, metadata_.settings.batch_size, {}, 1, edge_encoding(metadata_))))
    coded += static_cast<std::uint64_t>(bytes);
  EXPECT_GT(coded, 0U);
  EXPECT_EQ(encoded.buffers.bytes(), as_they_are.buffers.bytes() / 2 + coded);
}

// The first time of a sample is larger than all others.
TEST_F(LinkOptions, ThereIsRoomForWhatThereIsNoDifferenceOf) {
  metadata_.data.train_samples = 100;
  metadata_.shares = one_cluster(metadata_.settings.batch_size);
  EXPECT_FALSE(reconstructions_of(metadata_, stage_));
  metadata_.settings.transport = {.activations = "fp16"};
  const GroupOptions rounded = pipeline_options({.name = "node_1"}, metadata_, stage_);
  metadata_.settings.transport = {.activations = kInt4Delta};
  const GroupOptions differences = pipeline_options({.name = "node_1"}, metadata_, stage_);
  EXPECT_EQ(differences.max_message_bytes, rounded.max_message_bytes);
  EXPECT_EQ(differences.buffers.bytes(), rounded.buffers.bytes());
  EXPECT_TRUE(reconstructions_of(metadata_, stage_)->has(stage_.outputs.front().value));
}

TEST_F(LinkOptions, LinksFollowOptionsAndSettings) {
  metadata_.settings.peer_timeout_seconds = 1;
  metadata_.settings.reconnect_grace_seconds = 3;
  NodeOptions options{.name = "node_1"};
  const EndpointOptions usual = endpoint_options(options, metadata_);
  EXPECT_EQ(usual.address, metadata_.address);
  EXPECT_EQ(usual.heartbeat, std::chrono::milliseconds(250));
  EXPECT_EQ(usual.reconnect_grace, std::chrono::milliseconds(1000));  // no longer than the timeout
  options.listen = "0.0.0.0:8080";
  EXPECT_EQ(endpoint_options(options, metadata_).address, "0.0.0.0:8080");
}

TEST_F(LinkOptions, WhoCanBeReachedIsAsThePlanSays) {
  metadata_.members = {{"node_0", "127.0.0.1:8080", 0, false}, {"node_1", "127.0.0.1:8081", 1}};
  EXPECT_TRUE(endpoint_options({.name = "node_1"}, metadata_).reachable);
  EXPECT_FALSE(endpoint_peers(metadata_).front().reachable);
  metadata_.node = "node_0";
  EXPECT_FALSE(endpoint_options({.name = "node_0"}, metadata_).reachable);
  EXPECT_TRUE(endpoint_peers(metadata_).front().reachable);
}

TEST_F(LinkOptions, ThePipelineHasTheStagesNodesByRank) {
  metadata_.members = {
      {"node_0", "127.0.0.1:8080", 0}, {"node_1", "127.0.0.1:8081", 1}, {"node_2", "127.0.0.1:8082", 2}};
  EXPECT_EQ(pipeline_options({.name = "node_1"}, metadata_, stage_).members,
            (std::vector<std::string>{"node_0", "node_1", "node_2"}));
  const std::vector<EndpointPeer> peers = endpoint_peers(metadata_);
  ASSERT_EQ(peers.size(), 2U);
  EXPECT_EQ(peers[0].node, "node_0");
  EXPECT_EQ(peers[1].address, "127.0.0.1:8082");
}

}  // namespace
}  // namespace rookery
