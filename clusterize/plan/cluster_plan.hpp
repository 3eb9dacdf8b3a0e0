// A plan is what clusterize decides: clusters, the stages of each, and the rings between clusters.
// node_data/plan.json has it in full, see node_data/README.md; providers read their own
// nodes/node_N.json and the folder of their stage instead (node_metadata.hpp, stage_folder.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "clusterize/plan/stage_prediction.hpp"
#include "models/base/files/json_file.hpp"
#include "models/graph/stage.hpp"
#include "trainer/schedule/schedule.hpp"
#include "trainer/settings/averaging.hpp"
#include "trainer/settings/cluster_shares.hpp"
#include "trainer/settings/resume_point.hpp"
#include "trainer/settings/transport.hpp"

namespace rookery {

struct PlannedStage {
  std::string node;             // "node_0"
  std::string address;          // "0.0.0.0:8080"
  int threads = 1;              // for its arithmetic
  int threads_of_host = 1;      // of all nodes of the plan on its host
  bool reachable = true;        // by the others; otherwise it opens all its connections
  std::vector<OpId> ops;        // of the whole graph
  std::int64_t parameters = 0;  // that it owns
  bool recompute = false;       // activations
  int in_flight = 1;            // micro-batches, at most
  double forward_flops = 0;     // work for a micro-batch of the full size, see model_costs.hpp
  double backward_flops = 0;    // both phases, without what is computed again
  StagePrediction prediction;
};

// A maximal run of averaged_values() that live together on one node in every cluster: parameters, and buffers
// that training changes.
struct Ring {
  int id = 0;
  // And these buffers, in the order of first use; the first names the ring.
  std::vector<std::string> parameters;
  std::int64_t bytes = 0;         // of all of them
  std::int64_t buffer_bytes = 0;  // of the buffers among them
  std::vector<int> stages;        // by cluster: the stage that holds them
  // Bytes on each of its links, where these carry more than RingAllReduce has under way by itself.
  std::optional<std::uint64_t> under_way = std::nullopt;
};

// Between two stages of a cluster, of which `from` is the earlier; per micro-batch of the full size.
struct PlannedLink {
  int from = 0;
  int to = 0;
  double latency_ms = 0;
  double bandwidth_mbps = 0;
  TransportSettings transport = {};   // of values and gradients between the two
  std::int64_t activation_bytes = 0;  // from `from` to `to`
  std::int64_t gradient_bytes = 0;    // from `to` to `from`
  double activation_ms = 0;           // latency and transmission, alone on the link
  double gradient_ms = 0;
};

struct PlannedCluster {
  int id = 0;
  std::int64_t share = 0;  // samples that it trains of a full step, see ClusterShares
  std::vector<PlannedStage> stages;
  std::vector<PlannedLink> links;
  // Milliseconds of a batch: round trip + (micro-batches - 1) period + update + exchange; async: period +
  // exchange. See throughput_model.hpp. The search goes by it, as far as memory lets as many micro-batches be
  // in flight as it supposes; it is no less than what the schedule takes, where several micro-batches fill
  // the pipeline (but see step_parts.hpp of machines with several stages on slow links).
  double predicted_step_ms = 0;
  double round_trip_ms = 0;
  double period_ms = 0;
  double update_ms = 0;
  double exchange_ms = 0;
  // The same as its schedule runs, event by event (step_simulation.hpp); and of a step of its share.
  double simulated_step_ms = 0;
  double share_step_ms = 0;
};

// The predicted cost of one mode of averaging.
struct AveragingCandidate {
  AveragingSettings averaging;
  int clusters = 1;  // of the plan with it
  double samples_per_second = 0;
  double step_ms = 0;       // of the slowest cluster
  double averaging_ms = 0;  // of a step besides, on the average
  double round_ms = 0;
};
// Why the clusters of a plan average as they do, where that was left to the planner.
struct AveragingChoice {
  std::string reason;
  AveragingCandidate gradients;
  std::optional<AveragingCandidate> parameters;  // where it was looked at
};

// A plan with such micro-batches by such a schedule, as simulated.
struct ScheduleCandidate {
  int micro_batches = 1;
  std::string schedule;
  int clusters = 1;
  double step_ms = 0;  // of the slowest cluster, by its share
  double samples_per_second = 0;
};
// How a plan came to its schedule and number of micro-batches, where these were left to the planner.
struct ScheduleChoice {
  ScheduleCandidate chosen;
  std::vector<ScheduleCandidate> others;  // the fastest of those that were not chosen, fastest first
  int tried = 0;
  int too_large = 0;  // of these: are not possible with the machines
};

struct LeftOutNode {
  std::string node;
  std::string reason;
};

struct ClusterPlan {
  std::string plan_id;  // 16 hex digits, a digest of everything that decides the run
  std::string objective;
  std::string model;
  std::int64_t batch_size = 0;  // that predictions are for: the largest share of a cluster
  int micro_batches = 0;
  ScheduleSettings schedule;
  std::uint64_t seed = 0;
  std::optional<ResumePoint> resume;  // of the run that it goes on with
  std::vector<PlannedCluster> clusters;
  std::vector<Ring> rings;            // that their nodes form in the order of the clusters
  std::vector<LeftOutNode> left_out;  // nodes not used
  // For data, between nodes that talk: how many each of the two opens to the other, where that is more than
  // one.
  std::map<std::pair<std::string, std::string>, int> connections;  // by node_pair()
  AveragingSettings averaging;
  std::optional<AveragingChoice> averaging_choice;
  std::optional<ScheduleChoice> schedule_choice;
  double predicted_averaging_ms = 0;  // that a step waits for rounds, on the average
  double predicted_round_ms = 0;      // of a round of all rings, on the average
  double rounds_per_step = 1;         // of the whole model
  double predicted_samples_per_second = 0;
  // The rate of the simulated steps, each by its cluster's share, with the predicted averaging.
  double simulated_samples_per_second = 0;
  double bound_samples_per_second = 0;  // of all machines' arithmetic, without any waiting
};

// In the same order for both.
std::pair<std::string, std::string> node_pair(const std::string& a, const std::string& b);
// How many there are between two nodes; one where the plan says nothing.
int connections_between(const ClusterPlan& plan, const std::string& a, const std::string& b);
// The samples of a step that each cluster trains.
ClusterShares shares_of(const ClusterPlan& plan, int cluster);

// node_data/plan.json.
OrderedJson to_json(const ClusterPlan& plan);

}  // namespace rookery
