#include "clusterize/report/report.hpp"

#include <algorithm>
#include <map>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/planner/make_metadata.hpp"
#include "clusterize/report/averaging_text.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

std::string describe_node(const NodeMetadata& metadata) {
  std::vector<std::string> rings;
  std::map<std::string, std::string> by_address;  // the first parameter that both hold
  for (const auto& [id, ring] : metadata.rings) {
    rings.push_back(fmt::format("{}: '{}'", id, ring.first_parameter));
    for (const PeerInfo& peer : ring.peers) by_address.emplace(peer.address, ring.first_parameter);
  }
  std::vector<std::string> addresses;
  for (const auto& [address, first] : by_address)
    addresses.push_back(fmt::format("'{}': '{}'", address, first));
  return fmt::format(
      "Node({}) Cluster({}) Address({}) Role({})\n  Ring IDs({{{}}})\n  Address to parameter({{{}}})\n",
      metadata.node.substr(metadata.node.find('_') + 1), metadata.cluster, metadata.address, metadata.role(),
      fmt::join(rings, ", "), fmt::join(addresses, ", "));
}

std::string table_memory_text(std::int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  return size < 1e9 ? fmt::format("{:.2f} MB", size / 1e6) : fmt::format("{:.2f} GB", size / 1e9);
}

std::string table(const ClusterPlan& plan) {
  std::string text =
      fmt::format("{:<10} {:>7} {:>5} {:<9} {:>7} {:>4} {:>11} {:>11} {:>9} {:>9} {:>9}\n", "node", "cluster",
                  "stage", "role", "threads", "ops", "parameters", "memory", "fwd ms", "bwd ms", "send ms");
  bool recomputes = false;
  for (const PlannedCluster& cluster : plan.clusters) {
    const auto stages = static_cast<int>(cluster.stages.size());
    for (int i = 0; i < stages; ++i) {
      const PlannedStage& stage = cluster.stages[i];
      const StagePrediction& prediction = stage.prediction;
      recomputes = recomputes || stage.recompute;
      text +=
          fmt::format("{:<10} {:>7} {:>5} {:<9} {:>7} {:>4} {:>11} {:>11} {:>9.3f} {:>9.3f} {:>9.3f}{}\n",
                      stage.node, cluster.id, i, role_of(i, stages), stage.threads, stage.ops.size(),
                      stage.parameters, table_memory_text(prediction.total_bytes()), prediction.forward_ms,
                      prediction.backward_ms, prediction.send_ms, stage.recompute ? "  *" : "");
    }
  }
  if (recomputes) text += "* keeps few activations and computes the others again\n";
  return text;
}

// Where a machine has several stages: the first one's node is called as the machine.
std::string chunks_text(const ClusterPlan& plan) {
  for (const PlannedCluster& cluster : plan.clusters) {
    for (const PlannedStage& stage : cluster.stages) {
      const std::string machine = machine_of_node(stage.node);
      if (machine != stage.node)
        return fmt::format(
            "{} is a further stage of {}: the provider of a machine trains all of its stages, each at an "
            "address of its own, and they share its memory\n",
            stage.node, machine);
    }
  }
  return "";
}

std::string left_out_text(const std::vector<LeftOutNode>& left_out) {
  constexpr std::size_t kMostNodes = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(left_out.size(), kMostNodes); ++i)
    text += fmt::format("Left out: {}: {}\n", left_out[i].node, left_out[i].reason);
  if (left_out.size() > kMostNodes)
    text += fmt::format("and {} more, see plan.json\n", left_out.size() - kMostNodes);
  return text;
}

// Of the cluster whose gradients are the oldest.
std::string staleness_text(const ClusterPlan& plan) {
  if (is_synchronous(plan.schedule)) return "";
  int most = 0;
  for (const PlannedCluster& cluster : plan.clusters)
    most =
        std::max(most, updates_behind(plan.schedule, cluster.stages.front().in_flight, plan.micro_batches));
  if (most == 0) return "";
  return fmt::format(
      "Asynchronous: gradients change weights up to {} update{} newer than those they were computed with\n",
      most, most == 1 ? "" : "s");
}

std::string candidate_text(const ScheduleCandidate& of) {
  return fmt::format("\"micro_batches\": {}, \"schedule\": \"{}\": {} samples/s, a step of {}{}",
                     of.micro_batches, of.schedule, rate_text(of.samples_per_second),
                     duration_text(of.step_ms / 1e3),
                     of.clusters == 1 ? "" : fmt::format(" in {} clusters", of.clusters));
}

std::string schedule_choice_text(const ClusterPlan& plan) {
  if (!plan.schedule_choice) return "";
  const ScheduleChoice& choice = *plan.schedule_choice;
  std::string text = fmt::format("Chosen: {}, as simulated", candidate_text(choice.chosen));
  for (const ScheduleCandidate& other : choice.others) text += "\n  instead of " + candidate_text(other);
  text += fmt::format("\n  of {} that were tried", choice.tried);
  if (choice.too_large > 0)
    text += fmt::format(", {} of which are not possible with these machines", choice.too_large);
  return text + "\n";
}

// "activations as fp16 and gradients as int8"; empty where all travels as it is.
std::string encodings_text(const TransportSettings& transport) {
  std::vector<std::string> parts;
  if (transport.activations != "none") parts.push_back("activations as " + transport.activations);
  if (transport.gradients != "none") parts.push_back("gradients as " + transport.gradients);
  return fmt::format("{}", fmt::join(parts, " and "));
}

std::string transport_text(const TrainingSettings& settings, const ClusterPlan& plan) {
  if (!is_auto(settings.transport)) return "";
  std::string text;
  for (const PlannedCluster& cluster : plan.clusters) {
    for (const PlannedLink& link : cluster.links) {
      const std::string encodings = encodings_text(link.transport);
      if (encodings.empty()) continue;
      text += fmt::format("Chosen: between {} and {} {}\n", cluster.stages[link.from].node,
                          cluster.stages[link.to].node, encodings);
    }
  }
  if (text.empty()) return "Chosen: no link holds the plan back, all stages send what they send as it is\n";
  return text;
}

}  // namespace

std::string describe_plan(const TrainingTask& task, const Planned& planned) {
  const ClusterPlan& plan = planned.plan;
  std::string text;
  for (std::size_t cluster = 0; cluster < planned.stages.size(); ++cluster) {
    for (const Stage& stage : planned.stages[cluster])
      text += describe_node(make_metadata(task, planned, static_cast<int>(cluster), stage.index));
  }
  text += fmt::format("\n{}\n", table(plan));
  text += chunks_text(plan);
  text += left_out_text(plan.left_out);
  text += staleness_text(plan);
  text += schedule_choice_text(plan);
  text += transport_text(task.settings, plan);
  text += describe_averaging(plan);
  text += fmt::format(
      "Plan {} ({}): {} on {}, predicted {} samples/s ({} simulated), "
      "{} of the {} that the arithmetic of all machines would allow\n",
      plan.plan_id, plan.objective, task.settings.model,
      plan.clusters.size() == 1 ? "1 cluster" : fmt::format("{} clusters", plan.clusters.size()),
      rate_text(plan.predicted_samples_per_second), rate_text(plan.simulated_samples_per_second),
      percent_text(plan.predicted_samples_per_second / plan.bound_samples_per_second),
      rate_text(plan.bound_samples_per_second));
  return text;
}

}  // namespace rookery
