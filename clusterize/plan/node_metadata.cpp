#include "clusterize/plan/node_metadata.hpp"

#include <algorithm>
#include <utility>

#include "clusterize/plan/node_metadata/metadata_json.hpp"
#include "clusterize/pool/address.hpp"
#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

// Names of the nodes that have a file, in rising order of their numbers.
std::vector<std::string> planned_nodes(const std::filesystem::path& node_data) {
  std::vector<std::string> nodes;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(node_data / "nodes", code)) {
    if (entry.path().extension() == ".json") nodes.push_back(entry.path().stem().string());
  }
  std::ranges::sort(nodes, {}, [](const std::string& name) { return std::pair(name.size(), name); });
  return nodes;
}

bool is_node_name(const std::string& node) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return node.starts_with("node_") && node.size() > 5 && std::all_of(node.begin() + 5, node.end(), digit);
}

}  // namespace

std::string role_of(int stage, int stages) {
  if (stages == 1) return "root_leaf";
  return stage == 0 ? "root" : stage == stages - 1 ? "leaf" : "stem";
}

std::filesystem::path metadata_path(const std::filesystem::path& node_data, const std::string& node) {
  return node_data / "nodes" / (node + ".json");
}

std::filesystem::path stage_folder(const std::filesystem::path& node_data, const NodeMetadata& node) {
  if (const std::string problem = address_problem(node.address); !problem.empty())
    throw ConfigError(fmt::format("{}: '{}' {}", node.node, node.address, problem));
  return node_data / fmt::format("cluster_{}", node.cluster) / node.address;
}

std::filesystem::path trained_path(const std::filesystem::path& node_data, const NodeMetadata& node) {
  return stage_folder(node_data, node) / "trained.safetensors";
}

void write_metadata(const std::filesystem::path& node_data, const NodeMetadata& metadata) {
  make_directories(node_data / "nodes");
  write_json(metadata_path(node_data, metadata.node), to_json(metadata));
}

NodeMetadata read_metadata(const std::filesystem::path& node_data, const std::string& node) {
  const std::filesystem::path path = metadata_path(node_data, node);
  if (!is_node_name(node) || !std::filesystem::exists(path)) {
    const std::vector<std::string> nodes = planned_nodes(node_data);
    if (nodes.empty())
      throw ConfigError(
          fmt::format("{}: there is no plan: run clusterize first", (node_data / "nodes").string()));
    throw ConfigError(fmt::format("{}: there is no '{}' in the plan; there are: {}",
                                  (node_data / "nodes").string(), node, fmt::join(nodes, ", ")));
  }
  return metadata_from_json(read_json(path), node, path.string());
}

std::vector<NodeMetadata> read_all_metadata(const std::filesystem::path& node_data) {
  const std::vector<std::string> nodes = planned_nodes(node_data);
  if (nodes.empty())
    throw ConfigError(
        fmt::format("{}: there is no plan: run clusterize first", (node_data / "nodes").string()));
  std::vector<NodeMetadata> all;
  for (const std::string& node : nodes) all.push_back(read_metadata(node_data, node));
  std::ranges::sort(all, {}, [](const NodeMetadata& node) { return std::pair(node.cluster, node.stage); });
  for (const NodeMetadata& node : all) {
    if (node.plan_id != all.front().plan_id) {
      throw ConfigError(fmt::format(
          "{}: {} is of plan {}, {} of plan {}: copy node_data from the same clusterize run to "
          "every machine",
          (node_data / "nodes").string(), all.front().node, all.front().plan_id, node.node, node.plan_id));
    }
  }
  return all;
}

}  // namespace rookery
