// node_data/nodes/node_N.json: what one provider is told of the plan. See node_data/README.md.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "clusterize/plan/stage_prediction.hpp"
#include "models/graph/stage.hpp"
#include "models/kernels/choose.hpp"
#include "trainer/settings/batch_sizes.hpp"
#include "trainer/settings/resume_point.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// "root", "stem", "leaf"; "root_leaf" for the only stage of a cluster.
std::string role_of(int stage, int stages);

// Where machines have several stages (trainer/schedule/machine_order.hpp) each is a node: that of chunk 0 is
// called as the machine, "node_0", and those of the others "node_0.1", "node_0.2" and so on.
std::string node_of_machine(const std::string& machine, int chunk);
// "node_0" of "node_0.1" and of "node_0".
std::string machine_of_node(const std::string& node);

// For data, from one node to another: what providers can keep apart.
constexpr int kMostDataConnections = 16;

// One member of a cluster.
struct PeerInfo {
  std::string node;  // "node_0", or of a machine's further stage "node_0.1": see node_of_machine()
  std::string address;
  int stage = 0;
  // By the others. One that is not opens the connections between it and them, both ways.
  bool reachable = true;
  // For data, that this node and the peer open to each other, each as many; kMostDataConnections at most.
  int connections = 1;
  bool operator==(const PeerInfo&) const = default;
};

// A ring that a node is in.
struct RingMembership {
  std::string first_parameter;             // of those that the ring averages
  std::vector<PeerInfo> peers;             // one of each cluster, by cluster, the node itself included
  std::optional<std::uint64_t> under_way;  // bytes on each link, where it is planned (Ring)
  bool operator==(const RingMembership&) const = default;
};

// Between two stages of a cluster, of which `from` is the earlier.
struct LinkTransport {
  int from = 0;
  int to = 0;
  TransportSettings transport;
  bool operator==(const LinkTransport&) const = default;
};

// node_data/nodes/node_N.json.
struct NodeMetadata {
  std::string node;  // as in PeerInfo
  std::string address;
  int threads = 1;          // for its arithmetic, which time and memory are predicted for
  int threads_of_host = 1;  // of all machines of the plan on its host
  std::string plan_id;
  // 32 hex digits, the same in all files of a plan, by which its providers admit each other.
  std::string token;
  int cluster = 0;
  int clusters = 1;
  int stage = 0;
  int stages = 1;
  std::vector<PeerInfo> members;        // of the cluster, by stage, itself included
  std::map<int, RingMembership> rings;  // that it is in, by id
  // In a plan of several clusters: all Roots, by cluster; and how many rings the plan has.
  std::vector<PeerInfo> roots;
  int ring_count = 0;
  // By name of what its rings average: its fragment, where there are several (AveragingSettings).
  std::map<std::string, int> fragments;
  // Where each input of the stage comes from and each output goes, both empty when not recorded; and
  // with whom it shares parameters.
  std::vector<StageInput> inputs;
  std::vector<StageOutput> outputs;
  std::vector<SharedParameter> shared;
  // The whole model's, which travel as they are where activations do not.
  std::set<std::string> model_inputs;
  // Where settings leave it to the planner: how values and gradients travel, of all links of the cluster.
  std::vector<LinkTransport> transport;
  bool recompute = false;             // activations: decided by the planner where settings leave it open
  ClusterShares shares;               // of the samples of a step; its cluster is this one
  StagePrediction prediction;         // of micro-batches of the settings' batch_size
  double predicted_step_ms = 0;       // of its cluster, simulated, with its share
  double predicted_averaging_ms = 0;  // that a step waits for rounds of averaging, on the average
  double predicted_round_ms = 0;      // of averaging with the other clusters
  KernelChoice kernels;               // of its own ops
  TrainingSettings settings;          // with what is planned of the schedule
  DataSizes data;
  std::optional<ResumePoint> resume;  // what the plan's training starts from

  std::string role() const { return role_of(stage, stages); }
};

// The folders and files of a plan: node_data/nodes/<node>.json, node_data/cluster_<C>/<address>/ and the
// trained.safetensors in it.
std::filesystem::path metadata_path(const std::filesystem::path& node_data, const std::string& node);
std::filesystem::path stage_folder(const std::filesystem::path& node_data, const NodeMetadata& node);
std::filesystem::path trained_path(const std::filesystem::path& node_data, const NodeMetadata& node);

void write_metadata(const std::filesystem::path& node_data, const NodeMetadata& metadata);
// ConfigError naming file and key; also when `node` has no file, listing those that are there.
NodeMetadata read_metadata(const std::filesystem::path& node_data, const std::string& node);
// All nodes of a machine, by chunk. ConfigError where `machine` is none, or has no file, or another of its
// nodes has none of the same plan.
std::vector<std::string> nodes_of_machine(const std::filesystem::path& node_data, const std::string& machine);
// Every node's, sorted by cluster and stage.
std::vector<NodeMetadata> read_all_metadata(const std::filesystem::path& node_data);

}  // namespace rookery
