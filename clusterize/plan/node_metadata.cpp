#include "clusterize/plan/node_metadata.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "clusterize/plan/node_metadata/metadata_json.hpp"
#include "clusterize/pool/address.hpp"
#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

// Names of the nodes that have a file, in rising order of their numbers: machines, and chunks of each.
std::vector<std::string> planned_nodes(const std::filesystem::path& node_data) {
  std::vector<std::string> nodes;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(node_data / "nodes", code)) {
    if (entry.path().extension() == ".json") nodes.push_back(entry.path().stem().string());
  }
  std::ranges::sort(nodes, {}, [](const std::string& name) {
    const std::string machine = machine_of_node(name);
    return std::tuple(machine.size(), machine, name.size(), name);
  });
  return nodes;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_node_name(const std::string& node) {
  constexpr std::string_view kPrefix = "node_";
  const std::string machine = machine_of_node(node);
  if (!machine.starts_with(kPrefix) || !is_number(std::string_view(machine).substr(kPrefix.size())))
    return false;
  return machine == node || is_number(std::string_view(node).substr(machine.size() + 1));
}

// The file of a node of the plan.
std::filesystem::path planned_path(const std::filesystem::path& node_data, const std::string& node) {
  std::filesystem::path path = metadata_path(node_data, node);
  if (is_node_name(node) && std::filesystem::exists(path)) return path;
  const std::vector<std::string> nodes = planned_nodes(node_data);
  if (nodes.empty())
    throw ConfigError(
        fmt::format("{}: there is no plan: run clusterize first", (node_data / "nodes").string()));
  throw ConfigError(fmt::format("{}: there is no '{}' in the plan; there are: {}",
                                (node_data / "nodes").string(), node, fmt::join(nodes, ", ")));
}

void check_same_plan(const std::filesystem::path& node_data, const NodeMetadata& one,
                     const NodeMetadata& other) {
  if (one.plan_id == other.plan_id) return;
  throw ConfigError(
      fmt::format("{}: {} is of plan {}, {} of plan {}: copy node_data from the same clusterize run to "
                  "every machine",
                  (node_data / "nodes").string(), one.node, one.plan_id, other.node, other.plan_id));
}

}  // namespace

std::string role_of(int stage, int stages) {
  if (stages == 1) return "root_leaf";
  return stage == 0 ? "root" : stage == stages - 1 ? "leaf" : "stem";
}

std::string node_of_machine(const std::string& machine, int chunk) {
  return chunk == 0 ? machine : fmt::format("{}.{}", machine, chunk);
}

std::string machine_of_node(const std::string& node) {
  return node.substr(0, node.find('.'));
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
  const std::filesystem::path path = planned_path(node_data, node);
  return metadata_from_json(read_json(path), node, path.string());
}

std::vector<std::string> nodes_of_machine(const std::filesystem::path& node_data,
                                          const std::string& machine) {
  const NodeMetadata own = read_metadata(node_data, machine);
  if (machine_of_node(machine) != machine) {
    throw ConfigError(fmt::format("'{}' is a further stage of '{}', whose provider trains it with its others",
                                  machine, machine_of_node(machine)));
  }
  std::vector<std::string> nodes;
  for (const PeerInfo& member : own.members) {
    if (machine_of_node(member.node) != machine) continue;
    check_same_plan(node_data, own, read_metadata(node_data, member.node));
    nodes.push_back(member.node);
  }
  return nodes;
}

std::vector<NodeMetadata> read_all_metadata(const std::filesystem::path& node_data) {
  const std::vector<std::string> nodes = planned_nodes(node_data);
  if (nodes.empty())
    throw ConfigError(
        fmt::format("{}: there is no plan: run clusterize first", (node_data / "nodes").string()));
  std::vector<NodeMetadata> all;
  for (const std::string& node : nodes) all.push_back(read_metadata(node_data, node));
  std::ranges::sort(all, {}, [](const NodeMetadata& node) { return std::pair(node.cluster, node.stage); });
  for (const NodeMetadata& node : all) check_same_plan(node_data, all.front(), node);
  return all;
}

}  // namespace rookery
