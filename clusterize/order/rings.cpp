#include "clusterize/order/rings.hpp"

#include <map>
#include <string>

#include "models/base/check.hpp"

namespace rookery {
namespace {

std::map<std::string, int> stage_of_parameters(const std::vector<Stage>& stages) {
  std::map<std::string, int> stage_of;
  for (const Stage& stage : stages) {
    for (const ValueId id : stage.owned_parameters()) {
      const std::string& name = stage.graph.value(id).name;
      ROOKERY_CHECK(stage_of.emplace(name, stage.index).second, "two stages own '{}'", name);
    }
  }
  return stage_of;
}

}  // namespace

std::vector<Ring> make_rings(const Graph& graph, const std::vector<std::vector<Stage>>& clusters) {
  std::vector<std::map<std::string, int>> stage_of;
  for (const std::vector<Stage>& stages : clusters) stage_of.push_back(stage_of_parameters(stages));
  std::vector<Ring> rings;
  for (const ValueId id : graph.parameters()) {
    const std::string& name = graph.value(id).name;
    std::vector<int> stages;
    for (const auto& in_cluster : stage_of) stages.push_back(in_cluster.at(name));
    if (rings.empty() || rings.back().stages != stages) {
      rings.push_back({.id = static_cast<int>(rings.size()), .stages = std::move(stages)});
    }
    rings.back().parameters.push_back(name);
    rings.back().bytes += static_cast<std::int64_t>(graph.value(id).type.bytes());
  }
  return rings;
}

}  // namespace rookery
