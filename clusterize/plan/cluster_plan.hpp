// What clusterize decides: clusters, the stages of each, and the rings between clusters; and how it
// is laid out on disk for the providers. See node_data/README.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "models/base/files/json_file.hpp"
#include "models/graph/initialize.hpp"
#include "models/graph/stage.hpp"
#include "models/kernels/kernel.hpp"
#include "models/runtime/executable.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// What is expected of one stage, per micro-batch of the full size.
struct StagePrediction {
  double forward_ms = 0;
  double backward_ms = 0;
  double send_ms = 0;    // its boundary, one direction
  double update_ms = 0;  // of a step
  MemoryUse memory;
  std::int64_t transport_bytes = 0;  // buffers of the link
  std::int64_t dataset_bytes = 0;    // on the Root
  std::int64_t total_bytes() const { return memory.total() + transport_bytes + dataset_bytes; }
};

struct PlannedStage {
  std::string node;             // "node_0"
  std::string address;          // "0.0.0.0:8080"
  std::vector<OpId> ops;        // of the whole graph
  std::int64_t parameters = 0;  // that it owns
  bool recompute = false;       // activations
  double forward_flops = 0;     // work for a micro-batch of the full size, see model_costs.hpp
  double backward_flops = 0;    // both phases, without what is computed again
  StagePrediction prediction;
};

// A maximal run of parameters that live together on one node in every cluster.
struct Ring {
  int id = 0;
  std::vector<std::string> parameters;  // in graph order; the first names the ring
  std::int64_t bytes = 0;               // of all of them
  std::vector<int> stages;              // by cluster: the stage that holds them
};

// Between two stages of a cluster, of which `from` is the earlier; per micro-batch of the full size.
struct PlannedLink {
  int from = 0;
  int to = 0;
  double latency_ms = 0;
  double bandwidth_mbps = 0;
  std::int64_t activation_bytes = 0;  // from `from` to `to`
  std::int64_t gradient_bytes = 0;    // from `to` to `from`
  double activation_ms = 0;           // latency and transmission, alone on the link
  double gradient_ms = 0;
};

struct PlannedCluster {
  int id = 0;
  std::vector<PlannedStage> stages;
  std::vector<PlannedLink> links;
  // Of a batch: round trip + (micro-batches - 1) period + update + exchange; async: period + exchange. See
  // cost_model.hpp. What the search goes by; no less than what the schedule takes, where several
  // micro-batches fill the pipeline.
  double predicted_step_ms = 0;
  double round_trip_ms = 0;
  double period_ms = 0;
  double update_ms = 0;
  double exchange_ms = 0;
  // The same as its schedule runs, event by event (step_simulation.hpp): what providers compare with.
  double simulated_step_ms = 0;
};

struct LeftOutNode {
  std::string node;
  std::string reason;
};

struct ClusterPlan {
  std::string plan_id;  // 16 hex digits, a digest of everything that decides the run
  std::string objective;
  std::string model;
  std::int64_t batch_size = 0;  // of each cluster
  int micro_batches = 0;
  ScheduleSettings schedule;
  std::uint64_t seed = 0;
  std::vector<PlannedCluster> clusters;
  std::vector<Ring> rings;            // that their nodes form in the order of the clusters
  std::vector<LeftOutNode> left_out;  // nodes not used
  double predicted_averaging_ms = 0;  // after every step, of all rings
  double predicted_samples_per_second = 0;
  double simulated_samples_per_second = 0;  // of the simulated steps, and the predicted averaging
  double bound_samples_per_second = 0;      // of all machines' arithmetic, without any waiting
};

// node_data/plan.json.
OrderedJson to_json(const ClusterPlan& plan);

// Why this version cannot train a plan of so many clusters, and what to do: "this plan cannot be trained yet:
// …". Empty where it can.
std::string training_problem(std::size_t clusters);

// "root", "stem", "leaf"; "root_leaf" for the only stage of a cluster.
std::string role_of(int stage, int stages);

// One member of a cluster.
struct PeerInfo {
  std::string node;
  std::string address;
  int stage = 0;
  bool operator==(const PeerInfo&) const = default;
};

// node_data/nodes/node_N.json.
struct NodeMetadata {
  std::string node;  // "node_0"
  std::string address;
  std::string plan_id;
  std::string
      token;  // 32 hex digits, the same in all files of a plan, by which its providers admit each other
  int cluster = 0;
  int clusters = 1;
  int stage = 0;
  int stages = 1;
  std::vector<PeerInfo> members;                    // of the cluster, by stage, itself included
  std::map<int, std::string> rings;                 // ring id -> first parameter, of the rings it is in
  std::map<int, std::vector<PeerInfo>> ring_peers;  // one member per cluster, by cluster
  // Where each input of the stage comes from and each output goes, both empty when not recorded; and
  // with whom it shares parameters.
  std::vector<StageInput> inputs;
  std::vector<StageOutput> outputs;
  std::vector<SharedParameter> shared;
  bool recompute = false;  // activations: decided by the planner where settings leave it open
  StagePrediction prediction;
  double predicted_step_ms = 0;  // of its cluster, simulated
  KernelChoice kernels;          // of its own ops
  TrainingSettings settings;
  DataSizes data;

  std::string role() const { return role_of(stage, stages); }
};

// node_data/nodes/<node>.json and node_data/cluster_<C>/<address>/.
std::filesystem::path metadata_path(const std::filesystem::path& node_data, const std::string& node);
std::filesystem::path stage_folder(const std::filesystem::path& node_data, const NodeMetadata& node);
std::filesystem::path trained_path(const std::filesystem::path& node_data, const NodeMetadata& node);

void write_metadata(const std::filesystem::path& node_data, const NodeMetadata& metadata);
// ConfigError naming file and key; also when `node` has no file, listing those that are there.
NodeMetadata read_metadata(const std::filesystem::path& node_data, const std::string& node);
// Every node's, sorted by cluster and stage.
std::vector<NodeMetadata> read_all_metadata(const std::filesystem::path& node_data);

// submod.onnx, submod.safetensors, submod_<stage>_input.json, submod_<stage>_output.json and, on
// the Root, model_inputs.json. Each carries the plan's id.
void write_stage(const std::filesystem::path& folder, const Stage& stage, const StateDict& state,
                 const std::string& plan_id);

struct LoadedStage {
  Stage stage;
  StateDict state;
};
// Reads them again, appends the loss on the last stage, takes over the metadata's shared parameters, and
// checks that all are of the metadata's plan, and routing against graph and metadata. ConfigError or
// DataError naming file and value.
LoadedStage read_stage(const std::filesystem::path& folder, const NodeMetadata& metadata);
// Are all of them there, whole, and of the metadata's plan? Weights are not read.
bool holds_stage(const std::filesystem::path& folder, const NodeMetadata& metadata);
// Is this the name of a file that write_stage() makes?
bool is_stage_file(const std::string& name);

}  // namespace rookery
