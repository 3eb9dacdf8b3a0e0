#include "clusterize/order/rings.hpp"

#include <map>
#include <string>
#include <utility>

#include "models/base/check.hpp"

namespace rookery {
namespace {

std::map<std::string, int> stage_of_values(const std::vector<Stage>& stages) {
  std::map<std::string, int> stage_of;
  for (const Stage& stage : stages) {
    for (const ValueId id : stage.owned_averaged_values()) {
      const std::string& name = stage.graph.value(id).name;
      ROOKERY_CHECK(stage_of.emplace(name, stage.index).second, "two stages own '{}'", name);
    }
  }
  return stage_of;
}

}  // namespace

std::vector<Ring> make_rings(const std::vector<std::vector<Stage>>& clusters) {
  std::vector<std::map<std::string, int>> stage_of;
  for (const std::vector<Stage>& stages : clusters) stage_of.push_back(stage_of_values(stages));
  std::vector<Ring> rings;
  // Stages follow each other as ops do, so that those of any cluster have all values in the same order.
  for (const Stage& stage : clusters.front()) {
    for (const ValueId id : stage.owned_averaged_values()) {
      const Value& value = stage.graph.value(id);
      std::vector<int> stages;
      for (const auto& in_cluster : stage_of) stages.push_back(in_cluster.at(value.name));
      if (rings.empty() || rings.back().stages != stages) {
        rings.push_back({.id = static_cast<int>(rings.size()), .stages = std::move(stages)});
      }
      rings.back().parameters.push_back(value.name);
      const auto bytes = static_cast<std::int64_t>(value.type.bytes());
      rings.back().bytes += bytes;
      if (value.kind != ValueKind::kParameter) rings.back().buffer_bytes += bytes;
    }
  }
  return rings;
}

AveragedLoad load_of(const Ring& ring) {
  const auto numbers = [](std::int64_t bytes) { return static_cast<std::uint64_t>(bytes) / sizeof(float); };
  return {.parameters = {numbers(ring.bytes - ring.buffer_bytes), ring.parameters.size()},
          .buffers = {numbers(ring.buffer_bytes), ring.parameters.size()}};
}

}  // namespace rookery
