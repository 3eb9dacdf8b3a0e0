#include "clusterize/planner/plan_id.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

namespace rookery {
namespace {

// FNV-1a, 64 bits, as 16 hex digits.
class Digest {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  }
  void add(const std::string& text) { add(std::as_bytes(std::span(text))); }
  std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

OrderedJson to_json(const PoolNode& node) {
  return {{"id", node.id},
          {"address", node.address},
          {"ram", node.ram_gb},
          {"bandwidth", node.bandwidth_mbps},
          {"gflops", node.gflops.value_or(0)},
          {"transfer_gbps", node.transfer_gbps.value_or(0)},
          {"region", node.region}};
}

}  // namespace

std::string plan_id_of(const TrainingTask& task, const NodePool& pool, const ClusterPlan& plan) {
  OrderedJson nodes = OrderedJson::array();
  for (const PoolNode& node : pool.nodes()) nodes.push_back(to_json(node));
  OrderedJson cuts = OrderedJson::array();
  for (const PlannedCluster& cluster : plan.clusters) {
    OrderedJson stages = OrderedJson::array();
    for (const PlannedStage& stage : cluster.stages) stages.push_back({stage.node, stage.ops});
    cuts.push_back(stages);
  }
  OrderedJson all = {{"settings", to_json(task.settings)},
                     {"data", {task.data.train_samples, task.data.validation_samples}},
                     {"nodes", nodes},
                     {"cuts", cuts},
                     {"kernels", task.kernels}};
  if (!task.weights.empty()) all["weights"] = task.weights;
  Digest digest;
  digest.add(all.dump());
  return digest.text();
}

std::string weights_digest(const StateDict& state) {
  Digest digest;
  for (const auto& [name, tensor] : state) {
    digest.add(name + tensor.type().to_string());
    digest.add(tensor.view().bytes());
  }
  return digest.text();
}

}  // namespace rookery
