#include <gmock/gmock.h>

#include <fstream>
#include <functional>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/planner/make_metadata.hpp"
#include "models/base/files/files.hpp"
#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

const std::string kToken = "0123456789abcdef0123456789abcdef";

// node_1 of a planned cluster of three, and its file.
class MetadataFile : public testing::Test {
 protected:
  MetadataFile() {
    const TrainingTask task = cnn_task();
    const Planned planned = make_plan(task, pool_of(equal_nodes(6)), {.min_nodes = 3});
    for (int cluster = 0; cluster < 2; ++cluster) {
      for (int stage = 0; stage < 3; ++stage) {
        all_.push_back(make_metadata(task, planned, cluster, stage));
        all_.back().token = kToken;
        write_metadata(folder(), all_.back());
      }
    }
  }

  const std::filesystem::path& folder() const { return scratch_.path(); }
  const NodeMetadata& written() const { return all_[1]; }

  // What reading says once `change` was made to the file of node_1.
  std::string error_after(const std::function<void(Json&)>& change) {
    const std::filesystem::path path = metadata_path(folder(), "node_1");
    Json document = read_json(path);
    change(document);
    write_file(path, document.dump());
    std::string message = error_of([&] { read_metadata(folder(), "node_1"); });
    write_metadata(folder(), written());
    EXPECT_THAT(message, HasSubstr("nodes/node_1.json"));
    return message;
  }

  ScratchFolder scratch_;
  std::vector<NodeMetadata> all_;
};

// A cluster of two machines with two stages each, whose first and last are on one machine.
class ChunkFiles : public testing::Test {
 protected:
  ChunkFiles() {
    for (int stage = 0; stage < 4; ++stage) write(stage);
  }

  // A stage's file, after `change` was made to what it says.
  void write(int stage, const std::function<void(NodeMetadata&)>& change = {}) {
    const std::vector<std::string> names{"node_0", "node_1", "node_1.1", "node_0.1"};
    NodeMetadata metadata{.plan_id = "0123456789abcdef", .token = kToken, .stage = stage, .stages = 4};
    metadata.settings.micro_batches = 4;
    metadata.settings.schedule.name = "zbv";
    for (int other = 0; other < 4; ++other) {
      metadata.members.push_back(
          {names[other], fmt::format("host{}:{}", names[other][5], 80 + other), other});
      metadata.settings.schedule.planned.push_back(in_flight({.name = "zbv"}, other, 4, 4));
    }
    metadata.node = names[stage];
    metadata.address = metadata.members[stage].address;
    metadata.data = {.train_samples = 1, .validation_samples = 1};
    if (change) change(metadata);
    write_metadata(folder(), metadata);
  }

  // What reading says of stage 1 after `change`.
  std::string error_after(const std::function<void(NodeMetadata&)>& change) {
    write(1, change);
    std::string message = error_of([&] { read_metadata(folder(), "node_1"); });
    write(1);
    return message;
  }

  const std::filesystem::path& folder() const { return scratch_.path(); }

  ScratchFolder scratch_;
};

TEST(NodeNames, TellTheMachine) {
  EXPECT_EQ(node_of_machine("node_3", 0), "node_3");
  EXPECT_EQ(node_of_machine("node_3", 2), "node_3.2");
  EXPECT_EQ(machine_of_node("node_3"), "node_3");
  EXPECT_EQ(machine_of_node("node_3.12"), "node_3");
}

TEST_F(ChunkFiles, AreReadByStage) {
  std::vector<std::string> nodes;
  for (const NodeMetadata& node : read_all_metadata(folder())) nodes.push_back(node.node);
  EXPECT_THAT(nodes, testing::ElementsAre("node_0", "node_1", "node_1.1", "node_0.1"));
  const NodeMetadata last = read_metadata(folder(), "node_0.1");
  EXPECT_EQ(std::tuple(last.stage, last.role(), last.address), std::tuple(3, "leaf", "host0:83"));
  EXPECT_EQ(stage_folder(folder(), last), folder() / "cluster_0" / "host0:83");
}

TEST_F(ChunkFiles, AreFoundByMachine) {
  EXPECT_THAT(nodes_of_machine(folder(), "node_0"), testing::ElementsAre("node_0", "node_0.1"));
  write_file(folder() / "nodes" / "node_0.2.json", "{}");  // of an earlier plan
  EXPECT_THAT(nodes_of_machine(folder(), "node_0"), testing::ElementsAre("node_0", "node_0.1"));
  EXPECT_THAT(error_of([&] { nodes_of_machine(folder(), "node_9"); }),
              HasSubstr("there is no 'node_9' in the plan; there are: node_0, node_0."));
  EXPECT_THAT(error_of([&] { nodes_of_machine(folder(), "node_0.1"); }),
              HasSubstr("'node_0.1' is a further stage of 'node_0', whose provider trains it"));
  EXPECT_THAT(error_of([&] { nodes_of_machine(folder() / "empty", "node_0"); }),
              HasSubstr("run clusterize first"));
  NodeMetadata other = read_metadata(folder(), "node_0.1");
  other.plan_id = "00000000000000ff";
  write_metadata(folder(), other);
  EXPECT_THAT(error_of([&] { nodes_of_machine(folder(), "node_0"); }),
              HasSubstr("node_0.1 of plan 00000000000000ff: copy node_data from the same clusterize run"));
  std::filesystem::remove(folder() / "nodes" / "node_0.1.json");
  EXPECT_THAT(error_of([&] { nodes_of_machine(folder(), "node_0"); }),
              HasSubstr("there is no 'node_0.1' in the plan"));
}

TEST_F(ChunkFiles, AreCalledByTheirPlaceInTheSchedule) {
  EXPECT_THAT(error_after([](NodeMetadata& file) { std::swap(file.members[2].node, file.members[3].node); }),
              HasSubstr("members/2/node: node_0.1 is not node_1.1, which schedule \"zbv\" has there"));
  EXPECT_THAT(error_after([](NodeMetadata& file) { file.members[3].node = "node_2"; }),
              HasSubstr("members/3/node: node_2 is not node_0.1"));
  EXPECT_THAT(error_after([](NodeMetadata& file) { file.members[0].node = "node_0.2"; }),
              HasSubstr("members/0/node: node_0.2 is not node_0,"));
  EXPECT_THAT(error_after([](NodeMetadata& file) { file.settings.schedule = {.name = "1f1b"}; }),
              HasSubstr("members/2/node: node_1.1 is not node_1, which schedule \"1f1b\" has there"));
  const auto without_last = [](NodeMetadata& file) {
    file.members.pop_back();
    file.stages = 3;
  };
  EXPECT_THAT(error_after(without_last),
              HasSubstr("stages: 3 are not 2 on each of several machines, as schedule \"zbv\" has them"));
}

TEST_F(ChunkFiles, HaveInFlightWhatTheScheduleSays) {
  EXPECT_THAT(error_after([](NodeMetadata& file) {
                file.settings.schedule.planned = {1, 2, 3, 4};
              }),
              HasSubstr("in_flight: [1, 2, 3, 4] is not ["));
  EXPECT_THAT(error_after([](NodeMetadata& file) { file.settings.schedule.planned.pop_back(); }),
              HasSubstr("in_flight: there are 3 for 4 stages"));
}

TEST(Role, IsThatOfTheStageInItsCluster) {
  EXPECT_EQ(role_of(0, 1), "root_leaf");
  EXPECT_EQ(role_of(0, 3), "root");
  EXPECT_EQ(role_of(1, 3), "stem");
  EXPECT_EQ(role_of(2, 3), "leaf");
}

// Who of a pair opens the connections between the two.
TEST_F(MetadataFile, SaysWhoCannotBeReached) {
  Json pool = equal_nodes(3);
  pool["1"]["reachable"] = false;
  const TrainingTask task = cnn_task();
  const Planned planned = make_plan(task, pool_of(pool), {.min_nodes = 3});
  for (int stage = 0; stage < 3; ++stage) {
    NodeMetadata metadata = make_metadata(task, planned, 0, stage);
    metadata.token = kToken;
    write_metadata(folder(), metadata);
    const NodeMetadata read = read_metadata(folder(), metadata.node);
    EXPECT_EQ(read.members, metadata.members);
    EXPECT_EQ(read.rings, metadata.rings);
    for (const PeerInfo& member : read.members) EXPECT_EQ(member.reachable, member.node != "node_1");
    const Json file = read_json(metadata_path(folder(), metadata.node));
    for (const Json& member : file["members"])
      EXPECT_EQ(member.contains("reachable"), member["node"] == "node_1") << "only where it is not usual";
  }
}

TEST_F(MetadataFile, SaysWhetherUpdatesAreMadeAhead) {
  TrainingSettings settings;
  settings.micro_batches = 4;
  settings.schedule.name = "zb";
  settings.clip_gradient_norm = 1;
  const TrainingTask task = cnn_task(settings);
  const Planned planned = make_plan(task, pool_of(equal_nodes(3)), {.min_nodes = 3});
  NodeMetadata metadata = make_metadata(task, planned, 0, 1);
  metadata.token = kToken;
  ASSERT_TRUE(metadata.settings.schedule.updates_ahead);
  write_metadata(folder(), metadata);
  EXPECT_TRUE(read_metadata(folder(), metadata.node).settings.schedule.updates_ahead);
  metadata.shared = {{.parameter = "x", .to = 2, .gradient_from = 2}};
  write_metadata(folder(), metadata);
  EXPECT_THAT(error_of([&] { read_metadata(folder(), metadata.node); }),
              HasSubstr("updates_ahead: 'x' is used by several stages, which cannot take updates back"));

  write_metadata(folder(), written());
  EXPECT_FALSE(written().settings.schedule.updates_ahead);
  EXPECT_FALSE(read_json(metadata_path(folder(), "node_1")).contains("updates_ahead"));
  EXPECT_THAT(error_after([](Json& file) { file["updates_ahead"] = true; }),
              HasSubstr("updates_ahead: there are 2 clusters, which cannot take updates back"));
}

TEST_F(MetadataFile, SaysHowManyMicroBatchesAreInFlight) {
  EXPECT_EQ(written().settings.schedule.planned, (std::vector{1, 1, 1}));  // of one
  NodeMetadata metadata = written();
  metadata.settings.schedule.planned = {5, 4, 1};
  write_metadata(folder(), metadata);
  EXPECT_EQ(read_metadata(folder(), "node_1").settings.schedule.planned, (std::vector{5, 4, 1}));
  EXPECT_THAT(error_after([](Json& file) {
                file["in_flight"] = {5, 4};
              }),
              HasSubstr("in_flight: there are 2 for 3 stages"));
  EXPECT_THAT(error_after([](Json& file) {
                file["in_flight"] = {5, 4, 5};
              }),
              HasSubstr("in_flight: [5, 4, 5] rises"));
  error_after([](Json& file) { file["in_flight"] = {5, 0, 0}; });
}

// What its provider uses, and what all nodes of its host would.
TEST_F(MetadataFile, SaysHowManyThreadsThereAre) {
  Json pool = equal_nodes(3);
  pool["1"]["IP"] = "localhost:8081";
  pool["2"]["IP"] = "127.0.0.1:8082";
  pool["1"]["threads"] = 3;
  pool["2"]["threads"] = 2;
  const TrainingTask task = cnn_task();
  const Planned planned = make_plan(task, pool_of(pool), {.min_nodes = 3});
  for (int stage = 0; stage < 3; ++stage) {
    NodeMetadata metadata = make_metadata(task, planned, 0, stage);
    metadata.token = kToken;
    write_metadata(folder(), metadata);
    const NodeMetadata read = read_metadata(folder(), metadata.node);
    const auto expected = std::map<std::string, std::pair<int, int>>{
        {"node_0", {1, 1}}, {"node_1", {3, 5}}, {"node_2", {2, 5}}}[read.node];
    EXPECT_EQ(std::pair(read.threads, read.threads_of_host), expected) << read.node;
  }
  EXPECT_THAT(error_after([](Json& d) { d["threads"] = 0; }), HasSubstr("threads"));
}

TEST_F(MetadataFile, ComesBackAsItWas) {
  const NodeMetadata read = read_metadata(folder(), "node_1");
  const NodeMetadata& original = written();
  EXPECT_EQ(read.node, "node_1");
  EXPECT_EQ(read.address, "host8081:8081");
  EXPECT_EQ(read.plan_id, original.plan_id);
  EXPECT_EQ(read.role(), "stem");
  EXPECT_EQ(std::tuple(read.cluster, read.clusters, read.stage, read.stages), std::tuple(0, 2, 1, 3));
  EXPECT_EQ(read.members, original.members);
  EXPECT_EQ(read.rings, original.rings);
  EXPECT_EQ(read.roots, original.roots);
  EXPECT_EQ(read.ring_count, original.ring_count);
  EXPECT_EQ(read.inputs, original.inputs);
  EXPECT_EQ(read.outputs, original.outputs);
  EXPECT_EQ(read.model_inputs, original.model_inputs);
  EXPECT_EQ(read.kernels, original.kernels);
  EXPECT_EQ(read.settings, original.settings);
  EXPECT_EQ(read.data, original.data);
  EXPECT_EQ(read.prediction.forward_ms, original.prediction.forward_ms);
  EXPECT_EQ(read.prediction.memory.total(), original.prediction.memory.total());
  EXPECT_EQ(read.prediction.transport_bytes, original.prediction.transport_bytes);
  EXPECT_FALSE(read.kernels.empty());
  EXPECT_THAT(read.model_inputs, testing::Contains(kLabels));
  ASSERT_EQ(read.rings.size(), 1U);
  EXPECT_EQ(read.rings.begin()->second.peers.size(), 2U);
}

TEST_F(MetadataFile, SaysWhatRingsHaveUnderWayWhereItIsPlanned) {
  NodeMetadata metadata = written();
  EXPECT_FALSE(read_json(metadata_path(folder(), "node_1"))["rings"][0].contains("under_way"));
  metadata.rings.begin()->second.under_way = 24U << 20;
  write_metadata(folder(), metadata);
  EXPECT_EQ(read_metadata(folder(), "node_1").rings, metadata.rings);
  EXPECT_THAT(error_after([](Json& d) { d["rings"][0]["under_way"] = 0; }), HasSubstr("under_way"));
}

TEST_F(MetadataFile, SaysWhatWasChosenForEachLink) {
  NodeMetadata metadata = written();
  metadata.transport = {{0, 1, {.activations = "fp16"}},
                        {1, 2, {.activations = "int8_delta", .gradients = "int8"}}};
  write_metadata(folder(), metadata);
  EXPECT_EQ(read_metadata(folder(), "node_1").transport, metadata.transport);
  const auto with = [](int from, int to, const char* activations) {
    return [=](Json& d) {
      d["transport"] = {{{"from", from}, {"to", to}, {"activations", activations}, {"gradients", "none"}}};
    };
  };
  EXPECT_THAT(error_after(with(1, 3, "none")),
              HasSubstr("transport: there is no link from stage 1 to stage 3"));
  EXPECT_THAT(error_after(with(1, 1, "none")),
              HasSubstr("transport: there is no link from stage 1 to stage 1"));
  EXPECT_THAT(error_after(with(0, 1, "auto")), HasSubstr("transport/0/activations"));
}

TEST_F(MetadataFile, KnowsTheRootsOfAllClusters) {
  const NodeMetadata read = read_metadata(folder(), "node_1");
  EXPECT_EQ(read.roots,
            (std::vector<PeerInfo>{{"node_0", "host8080:8080", 0}, {"node_3", "host8083:8083", 0}}));
  EXPECT_EQ(read.ring_count, 3);
  for (const char* key : {"roots", "ring_count"})
    EXPECT_THAT(error_after([&](Json& d) { d.erase(key); }), HasSubstr(fmt::format("'{}'", key)));
  EXPECT_THAT(error_after([](Json& d) { d["roots"].erase(1); }),
              HasSubstr("roots: there are 1 for 2 clusters"));
  EXPECT_THAT(error_after([](Json& d) { d["roots"][0]["node"] = "node_9"; }),
              HasSubstr("roots/0: node_9 is not node_0"));
  EXPECT_THAT(error_after([](Json& d) { d["roots"][1]["node"] = "node_0"; }),
              HasSubstr("roots: node_0 is there twice"));
  EXPECT_THAT(error_after([](Json& d) { d["roots"][1]["stage"] = 2; }),
              HasSubstr("roots: node_3 is stage 2"));
  EXPECT_THAT(error_after([](Json& d) { d["roots"][1]["address"] = "../../x:1"; }),
              HasSubstr("roots/1/address: '../../x:1'"));
  EXPECT_THAT(error_after([](Json& d) { d["ring_count"] = 1; }),
              HasSubstr("rings: 1 is not below 1, the number of rings"));
  EXPECT_THAT(error_after([](Json& d) { d["ring_count"] = 0; }), HasSubstr("ring_count"));
}

TEST_F(MetadataFile, OneClusterHasNoRootsToKnow) {
  const TrainingTask task = cnn_task();
  const Planned planned = make_plan(task, pool_of(equal_nodes(3)), {.min_nodes = 3});
  NodeMetadata metadata = make_metadata(task, planned, 0, 1);
  metadata.token = kToken;
  write_metadata(folder(), metadata);
  EXPECT_THAT(read_metadata(folder(), "node_1").roots, testing::IsEmpty());
  for (const char* key : {"roots", "ring_count"})
    EXPECT_FALSE(read_json(metadata_path(folder(), "node_1")).contains(key));
}

TEST_F(MetadataFile, NeighboursInRingsCanConnect) {
  const auto cannot = [](Json& peers) { peers[0]["reachable"] = peers[1]["reachable"] = false; };
  EXPECT_THAT(error_after([&](Json& d) {
                d["members"][1]["reachable"] = false;
                cannot(d["rings"][0]["peers"]);
              }),
              HasSubstr("rings/1/peers: node_1 and node_4 are neighbours, and neither can be reached"));
  EXPECT_THAT(error_after([&](Json& d) {
                d["members"][0]["reachable"] = false;
                cannot(d["roots"]);
              }),
              HasSubstr("roots: node_0 and node_3 are neighbours, and neither can be reached"));
}

TEST_F(MetadataFile, SharedParametersComeBackAndAreChecked) {
  const TrainingTask task = tied_task();
  const Planned planned = make_plan(task, pool_of(equal_nodes(3)), {.min_nodes = 3});
  all_[1] = make_metadata(task, planned, 0, 1);
  all_[1].token = kToken;
  write_metadata(folder(), written());
  ASSERT_FALSE(written().shared.empty());
  EXPECT_EQ(read_metadata(folder(), "node_1").shared, written().shared);
  const auto error_with = [&](const char* shared) {
    return error_after([&](Json& d) { d["shared_parameters"] = Json::parse(shared); });
  };
  EXPECT_THAT(error_with(R"([{"from": 0}])"), HasSubstr("shared_parameters/0"));
  EXPECT_THAT(error_with(R"([{"parameter": "key", "owner": 0}])"), HasSubstr("shared_parameters/0"));
  EXPECT_THAT(error_with(R"([{"parameter": "key", "from": 2}])"),
              HasSubstr("shared_parameters: 'key' cannot come from or go to stage 2"));
  EXPECT_THAT(error_with(R"([{"parameter": "key", "from": 0, "gradient_to": 1}])"), HasSubstr("stage 1"));
  EXPECT_THAT(error_with(R"([{"parameter": "key", "to": 3}])"), HasSubstr("stage 3"));
  EXPECT_THAT(error_with(R"([{"parameter": "key", "to": 2, "gradient_from": 0}])"), HasSubstr("stage 0"));
  EXPECT_THAT(error_with(R"([{"parameter": "key", "to": 2, "gradient_to": 0}])"),
              HasSubstr("'key' comes from nobody"));
  EXPECT_THAT(error_with(R"([{"parameter": "key"}])"), HasSubstr("'key' comes from nobody"));
  EXPECT_THAT(error_with(R"([{"parameter": "key", "to": 2}, {"parameter": "key", "from": 0}])"),
              HasSubstr("'key' is there twice"));
}

TEST_F(MetadataFile, AllAreReadByClusterAndStage) {
  const std::vector<NodeMetadata> read = read_all_metadata(folder());
  ASSERT_EQ(read.size(), 6U);
  for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i].node, all_[i].node);
}

TEST_F(MetadataFile, AnUnknownNodeIsAnsweredWithThoseThereAre) {
  EXPECT_THAT(error_of([&] { read_metadata(folder(), "node_9"); }),
              HasSubstr("there is no 'node_9' in the plan; there are: node_0, node_1, node_2"));
  EXPECT_THAT(error_of([&] { read_metadata(folder(), "../nodes/node_1"); }),
              HasSubstr("there is no '../nodes/node_1'"));
  EXPECT_THAT(error_of([&] { read_metadata(folder() / "empty", "node_0"); }),
              HasSubstr("run clusterize first"));
  EXPECT_THAT(error_of([&] { read_all_metadata(folder() / "empty"); }), HasSubstr("run clusterize first"));
}

TEST_F(MetadataFile, NewerAndForeignFilesAreRefused) {
  EXPECT_THAT(error_after([](Json& d) { d["version"] = 3; }),
              AllOf(HasSubstr("version 3"), HasSubstr("up to 2")));
  EXPECT_THAT(error_after([](Json& d) { d["version"] = 1; }),
              AllOf(HasSubstr("an older Rookery"), HasSubstr("run clusterize again")));
  EXPECT_THAT(error_after([](Json& d) { d["version"] = "1"; }), HasSubstr("version"));
  EXPECT_THAT(error_after([](Json& d) { d["format"] = "rookery.plan"; }),
              HasSubstr("not a rookery.node file"));
}

TEST_F(MetadataFile, AMissingOrUnknownKeyIsNamed) {
  for (const char* key :
       {"node", "address", "members", "stage", "stages", "settings", "plan_id", "token", "rings", "kernels",
        "data", "prediction", "inputs", "outputs", "shared_parameters", "cluster", "clusters", "role"}) {
    EXPECT_THAT(error_after([&](Json& d) { d.erase(key); }), HasSubstr(fmt::format("'{}'", key))) << key;
  }
  EXPECT_THAT(error_after([](Json& d) { d["colour"] = "red"; }), HasSubstr("colour"));
}

TEST_F(MetadataFile, AnAddressIsNoPath) {
  for (const char* address : {"../../x:1", "/etc:1", "a/../../b:1", "..:1"}) {
    EXPECT_THAT(error_after([&](Json& d) { d["members"][1]["address"] = d["address"] = address; }),
                HasSubstr(fmt::format("members/1/address: '{}'", address)));
    EXPECT_THAT(error_after([&](Json& d) { d["rings"][0]["peers"][1]["address"] = address; }),
                HasSubstr("rings/"));
  }
  NodeMetadata hostile = written();
  hostile.address = "../../x:1";
  EXPECT_THAT(error_of([&] { stage_folder(folder(), hostile); }), HasSubstr("'../../x:1'"));
  EXPECT_THAT(error_after([](Json& d) { d["node"] = "../node_1"; }), HasSubstr("node"));
}

TEST_F(MetadataFile, MembersAreCompleteAndHoldTheNodeItself) {
  EXPECT_THAT(
      error_after([](Json& d) { d["members"][0]["reachable"] = d["members"][2]["reachable"] = false; }),
      HasSubstr("members: neither node_0 nor node_2 can be reached by the other"));
  EXPECT_THAT(error_after([](Json& d) { d["members"][0]["reachable"] = "no"; }),
              HasSubstr("members/0/reachable"));
  EXPECT_THAT(error_after([](Json& d) { d["members"].erase(2); }),
              HasSubstr("members: there are 2 for 3 stages"));
  EXPECT_THAT(error_after([](Json& d) { d["members"][1]["node"] = "node_7"; }),
              HasSubstr("is not this node"));
  EXPECT_THAT(error_after([](Json& d) { d["address"] = "host9999:9999"; }), HasSubstr("is not this node"));
  EXPECT_THAT(error_after([](Json& d) { std::swap(d["members"][0], d["members"][2]); }),
              HasSubstr("members/0/stage: 2 is not 0"));
  EXPECT_THAT(error_after([](Json& d) { d["members"][2]["node"] = "node_0"; }),
              HasSubstr("node_0 is there twice"));
  EXPECT_THAT(error_after([](Json& d) { d["members"][2]["address"] = "host8080:8080"; }),
              HasSubstr("host8080:8080 is there twice"));
}

TEST_F(MetadataFile, NumbersFitEachOther) {
  EXPECT_THAT(error_after([](Json& d) { d["stage"] = 3; }), HasSubstr("stage: 3 is not below 3"));
  EXPECT_THAT(error_after([](Json& d) { d["stage"] = -1; }), HasSubstr("stage"));
  EXPECT_THAT(error_after([](Json& d) { d["stages"] = 1000000000000LL; }), HasSubstr("stages"));
  EXPECT_THAT(error_after([](Json& d) { d["cluster"] = 2; }), HasSubstr("cluster: 2 is not below 2"));
  EXPECT_THAT(error_after([](Json& d) { d["role"] = "leaf"; }), HasSubstr("stage 1 of 3 is the stem"));
  EXPECT_THAT(error_after([](Json& d) { d["node"] = "node_2"; }), HasSubstr("this is the file of node_2"));
  EXPECT_THAT(error_after([](Json& d) { d["data"]["train_samples"] = -5; }), HasSubstr("data/train_samples"));
  EXPECT_THAT(error_after([](Json& d) { d["rings"][0]["peers"].erase(1); }),
              HasSubstr("there are 1 for 2 clusters"));
}

TEST_F(MetadataFile, RoutingGoesForwardOnly) {
  EXPECT_THAT(error_after([](Json& d) { d["inputs"][0]["from"] = 1; }), HasSubstr("inputs: "));
  EXPECT_THAT(error_after([](Json& d) { d["outputs"][0]["to"] = {1}; }), HasSubstr("outputs: "));
  EXPECT_THAT(error_after([](Json& d) { d["outputs"][0]["to"] = {3}; }), HasSubstr("outputs: "));
  EXPECT_THAT(error_after([](Json& d) { d["outputs"][0]["gradient_from"] = 0; }), HasSubstr("outputs: "));
}

TEST_F(MetadataFile, BadSettingsAreNamed) {
  EXPECT_THAT(error_after([](Json& d) { d["settings"]["averaging"] = "auto"; }),
              HasSubstr("settings/averaging/mode: \"auto\" is for clusterize"));
  EXPECT_THAT(error_after([](Json& d) { d["settings"]["micro_batches"] = "auto"; }),
              HasSubstr("settings/micro_batches: \"auto\" is for clusterize"));
  EXPECT_THAT(error_after([](Json& d) { d["settings"]["schedule"] = "auto"; }),
              HasSubstr("settings/schedule: \"auto\" is for clusterize"));
  EXPECT_THAT(error_after([](Json& d) { d["settings"]["batch_size"] = 0; }),
              AllOf(HasSubstr("settings"), HasSubstr("batch_size")));
}

TEST_F(MetadataFile, NodesOfTwoPlansAreRefused) {
  NodeMetadata other = all_[2];
  other.plan_id = "0123456789abcdef";
  write_metadata(folder(), other);
  EXPECT_THAT(error_of([&] { read_all_metadata(folder()); }),
              AllOf(HasSubstr("node_2 of plan 0123456789abcdef"),
                    HasSubstr("copy node_data from the same clusterize run to every machine")));
}

}  // namespace
}  // namespace rookery
