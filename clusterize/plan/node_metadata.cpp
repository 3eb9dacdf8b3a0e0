#include "clusterize/plan/node_metadata.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "clusterize/plan/prediction_json.hpp"
#include "clusterize/pool/address.hpp"
#include "models/base/error.hpp"
#include "models/base/files/files.hpp"

namespace rookery {
namespace {

constexpr const char* kNodeFormat = "rookery.node";
constexpr std::int64_t kNodeVersion = 2;

OrderedJson to_json(const PeerInfo& peer) {
  OrderedJson all = {{"node", peer.node}, {"address", peer.address}, {"stage", peer.stage}};
  if (!peer.reachable) all["reachable"] = false;
  return all;
}

OrderedJson to_json(const std::vector<PeerInfo>& peers) {
  OrderedJson list = OrderedJson::array();
  for (const PeerInfo& peer : peers) list.push_back(to_json(peer));
  return list;
}

// Nodes that this one sends activations to, or gets them from: drawn from members and routing, for
// people who read the file.
OrderedJson forward_peers(const NodeMetadata& metadata) {
  std::set<int> stages;
  for (const StageOutput& output : metadata.outputs) stages.insert(output.to.begin(), output.to.end());
  OrderedJson names = OrderedJson::array();
  for (const int stage : stages) names.push_back(metadata.members.at(stage).node);
  return names;
}

OrderedJson backward_peers(const NodeMetadata& metadata) {
  std::set<int> stages;
  for (const StageInput& input : metadata.inputs) {
    if (input.from != kNoStage) stages.insert(input.from);
  }
  OrderedJson names = OrderedJson::array();
  for (const int stage : stages) names.push_back(metadata.members.at(stage).node);
  return names;
}

OrderedJson to_json(const NodeMetadata& metadata) {
  OrderedJson rings = OrderedJson::array();
  for (const auto& [id, first] : metadata.rings) {
    const auto peers = metadata.ring_peers.find(id);
    rings.push_back(
        {{"id", id},
         {"first_parameter", first},
         {"peers", peers == metadata.ring_peers.end() ? OrderedJson::array() : to_json(peers->second)}});
  }
  OrderedJson inputs = OrderedJson::array();
  for (const StageInput& input : metadata.inputs) inputs.push_back(to_json(input));
  OrderedJson outputs = OrderedJson::array();
  for (const StageOutput& output : metadata.outputs) outputs.push_back(to_json(output));
  OrderedJson shared = OrderedJson::array();
  for (const SharedParameter& parameter : metadata.shared) shared.push_back(to_json(parameter));
  OrderedJson all = {{"format", kNodeFormat},
                     {"version", kNodeVersion},
                     {"plan_id", metadata.plan_id},
                     {"token", metadata.token},
                     {"node", metadata.node},
                     {"address", metadata.address},
                     {"threads", metadata.threads},
                     {"threads_of_host", metadata.threads_of_host},
                     {"role", metadata.role()},
                     {"cluster", metadata.cluster},
                     {"clusters", metadata.clusters},
                     {"stage", metadata.stage},
                     {"stages", metadata.stages},
                     {"members", to_json(metadata.members)},
                     {"forward_peers", forward_peers(metadata)},
                     {"backward_peers", backward_peers(metadata)},
                     {"inputs", inputs},
                     {"outputs", outputs},
                     {"shared_parameters", shared},
                     {"model_inputs", metadata.model_inputs},
                     {"rings", rings},
                     {"recompute", metadata.recompute},
                     {"in_flight", metadata.settings.schedule.planned},
                     {"prediction", to_json(metadata.prediction)},
                     {"predicted_step_ms", metadata.predicted_step_ms},
                     {"kernels", metadata.kernels},
                     {"data",
                      {{"train_samples", metadata.data.train_samples},
                       {"validation_samples", metadata.data.validation_samples},
                       {"bytes", metadata.data.bytes}}},
                     {"settings", to_json(metadata.settings)}};
  for (const LinkTransport& link : metadata.transport)
    all["transport"].push_back({{"from", link.from},
                                {"to", link.to},
                                {"activations", link.transport.activations},
                                {"gradients", link.transport.gradients}});
  if (metadata.data.digest != 0) all["data"]["digest"] = fmt::format("{:016x}", metadata.data.digest);
  if (metadata.clusters > 1) {
    all["roots"] = to_json(metadata.roots);
    all["ring_count"] = metadata.ring_count;
    all["shares"] = metadata.shares.samples;
    all["predicted_averaging_ms"] = metadata.predicted_averaging_ms;
    all["predicted_round_ms"] = metadata.predicted_round_ms;
    if (!metadata.fragments.empty()) all["fragments"] = metadata.fragments;
  }
  if (metadata.resume) all["resume"] = to_json(*metadata.resume);
  return all;
}

Json make_schema() {
  Json schema = Json::parse(R"({
    "type": "object", "additionalProperties": false,
    "required": ["format", "version", "plan_id", "token", "node", "address", "role", "cluster", "clusters", "stage",
                 "stages", "members", "inputs", "outputs", "shared_parameters", "rings", "recompute", "prediction",
                 "predicted_step_ms", "kernels", "data", "settings"],
    "properties": {
      "format": {}, "version": {},
      "plan_id": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
      "token": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
      "node": {"$ref": "#/definitions/node"},
      "address": {"type": "string"},
      "threads": {"$ref": "#/definitions/threads"},
      "threads_of_host": {"$ref": "#/definitions/count"},
      "role": {"enum": ["root", "stem", "leaf", "root_leaf"]},
      "cluster": {"$ref": "#/definitions/index"},
      "clusters": {"$ref": "#/definitions/count"},
      "stage": {"$ref": "#/definitions/index"},
      "stages": {"$ref": "#/definitions/count"},
      "members": {"$ref": "#/definitions/peers"},
      "forward_peers": {"type": "array", "items": {"type": "string"}},
      "backward_peers": {"type": "array", "items": {"type": "string"}},
      "rings": {"type": "array", "items": {
        "type": "object", "required": ["id", "first_parameter", "peers"], "additionalProperties": false,
        "properties": {"id": {"$ref": "#/definitions/index"}, "first_parameter": {"type": "string"},
                       "peers": {"$ref": "#/definitions/peers"}}}},
      "model_inputs": {"type": "array", "items": {"type": "string"}},
      "transport": {"type": "array", "items": {
        "type": "object", "required": ["from", "to", "activations", "gradients"], "additionalProperties": false,
        "properties": {"from": {"$ref": "#/definitions/index"}, "to": {"$ref": "#/definitions/index"},
                       "activations": {"$ref": "#/definitions/encoding"},
                       "gradients": {"$ref": "#/definitions/encoding"}}}},
      "roots": {"$ref": "#/definitions/peers"},
      "ring_count": {"$ref": "#/definitions/count"},
      "shares": {"type": "array", "items": {"$ref": "#/definitions/count"}},
      "recompute": {"type": "boolean"},
      "in_flight": {"type": "array", "items": {"$ref": "#/definitions/count"}},
      "predicted_step_ms": {"type": "number", "minimum": 0},
      "predicted_averaging_ms": {"type": "number", "minimum": 0},
      "predicted_round_ms": {"type": "number", "minimum": 0},
      "fragments": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 999}},
      "kernels": {"type": "object", "additionalProperties": {"type": "string"}},
      "data": {"type": "object", "required": ["train_samples", "validation_samples", "bytes"],
               "properties": {"digest": {"type": "string", "pattern": "^[0-9a-f]{16}$"}},
               "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 1125899906842624}},
      "settings": {"type": "object"}},
    "definitions": {
      "node": {"type": "string", "pattern": "^node_[0-9]{1,6}$"},
      "index": {"type": "integer", "minimum": 0, "maximum": 999999},
      "encoding": {"enum": ["none", "fp16", "bf16", "int8", "int4"]},
      "count": {"type": "integer", "minimum": 1, "maximum": 1000000},
      "threads": {"type": "integer", "minimum": 1, "maximum": 1024},
      "peers": {"type": "array", "items": {
        "type": "object", "required": ["node", "address", "stage"], "additionalProperties": false,
        "properties": {"node": {"$ref": "#/definitions/node"}, "address": {"type": "string"},
                       "stage": {"$ref": "#/definitions/index"}, "reachable": {"type": "boolean"}}}}}
  })");
  schema["properties"]["prediction"] = prediction_schema();
  schema["properties"]["resume"] = resume_schema();
  schema["properties"]["inputs"] = {{"type", "array"}, {"items", input_schema()}};
  schema["properties"]["outputs"] = {{"type", "array"}, {"items", output_schema()}};
  schema["properties"]["shared_parameters"] = {{"type", "array"}, {"items", shared_schema()}};
  return schema;
}

template <typename... Args>
[[noreturn]] void fail(std::string_view file, fmt::format_string<Args...> format, Args&&... args) {
  throw ConfigError(
      fmt::format("{}: {}: run clusterize again", file, fmt::format(format, std::forward<Args>(args)...)));
}

// Of the data set; its schema says what it is made of.
std::uint64_t digest_from_json(const Json& data) {
  if (!data.contains("digest")) return 0;
  std::uint64_t digest = 0;
  const auto text = data.at("digest").get<std::string>();
  std::from_chars(text.data(), text.data() + text.size(), digest, 16);
  return digest;
}

std::vector<LinkTransport> transport_from_json(const Json& document, int stages, std::string_view file) {
  std::vector<LinkTransport> transport;
  for (const Json& link : document.value("transport", Json::array())) {
    transport.push_back({link.at("from").get<int>(),
                         link.at("to").get<int>(),
                         {.activations = link.at("activations").get<std::string>(),
                          .gradients = link.at("gradients").get<std::string>()}});
    const auto [from, to, settings] = transport.back();
    if (from >= to || to >= stages)
      fail(file, "transport: there is no link from stage {} to stage {} of {}", from, to, stages);
  }
  return transport;
}

std::vector<PeerInfo> peers_from_json(const Json& list, std::string_view key, std::string_view file) {
  std::vector<PeerInfo> peers;
  for (const Json& entry : list) {
    peers.push_back({entry.at("node").get<std::string>(), entry.at("address").get<std::string>(),
                     entry.at("stage").get<int>(), entry.value("reachable", true)});
    const std::string& address = peers.back().address;
    if (const std::string problem = address_problem(address); !problem.empty())
      fail(file, "{}/{}/address: '{}' {}", key, peers.size() - 1, address, problem);
  }
  return peers;
}

void read_rings(const Json& list, NodeMetadata& metadata, std::string_view file) {
  for (const Json& ring : list) {
    const int id = ring.at("id").get<int>();
    if (!metadata.rings.emplace(id, ring.at("first_parameter").get<std::string>()).second)
      fail(file, "rings: ring {} is there twice", id);
    metadata.ring_peers[id] = peers_from_json(ring.at("peers"), fmt::format("rings/{}/peers", id), file);
  }
}

void read_roots(const Json& document, NodeMetadata& metadata, std::string_view file) {
  for (const char* key : {"roots", "ring_count", "shares", "predicted_averaging_ms", "predicted_round_ms"}) {
    if (!document.contains(key))
      fail(file, "'{}' is missing in a plan of {} clusters", key, metadata.clusters);
  }
  metadata.roots = peers_from_json(document.at("roots"), "roots", file);
  metadata.ring_count = document.at("ring_count").get<int>();
  metadata.predicted_averaging_ms = document.at("predicted_averaging_ms").get<double>();
  metadata.predicted_round_ms = document.at("predicted_round_ms").get<double>();
  metadata.shares.samples = document.at("shares").get<std::vector<std::int64_t>>();
  metadata.fragments = document.value("fragments", std::map<std::string, int>());
}

// The first two of which neither can open a connection to the other.
std::optional<std::pair<std::string, std::string>> unreachable_pair(const std::vector<PeerInfo>& members) {
  const auto is_unreachable = [](const PeerInfo& member) { return !member.reachable; };
  const auto first = std::ranges::find_if(members, is_unreachable);
  if (first == members.end()) return std::nullopt;
  const auto second = std::find_if(first + 1, members.end(), is_unreachable);
  if (second == members.end()) return std::nullopt;
  return std::pair(first->node, second->node);
}

void check_members(const NodeMetadata& metadata, std::string_view file) {
  if (std::ssize(metadata.members) != metadata.stages)
    fail(file, "members: there are {} for {} stages", metadata.members.size(), metadata.stages);
  std::set<std::string> nodes;
  std::set<std::string> addresses;
  for (std::size_t i = 0; i < metadata.members.size(); ++i) {
    const PeerInfo& member = metadata.members[i];
    if (member.stage != static_cast<int>(i)) fail(file, "members/{}/stage: {} is not {}", i, member.stage, i);
    if (!nodes.insert(member.node).second) fail(file, "members: {} is there twice", member.node);
    if (!addresses.insert(member.address).second)
      fail(file, "members: the address {} is there twice", member.address);
  }
  if (const auto apart = unreachable_pair(metadata.members)) {
    fail(file, "members: neither {} nor {} can be reached by the other", apart->first, apart->second);
  }
  const PeerInfo& self = metadata.members[metadata.stage];
  if (self.node != metadata.node || self.address != metadata.address) {
    fail(file, "members/{}: {} ({}) is not this node, {} ({})", metadata.stage, self.node, self.address,
         metadata.node, metadata.address);
  }
}

// In rings only neighbours connect.
std::optional<std::pair<std::string, std::string>> unreachable_neighbours(
    const std::vector<PeerInfo>& peers) {
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const PeerInfo& next = peers[(i + 1) % peers.size()];
    if (peers.size() > 1 && !peers[i].reachable && !next.reachable)
      return std::pair(peers[i].node, next.node);
  }
  return std::nullopt;
}

// One node of every cluster, by cluster, of which `self` is this one's.
void check_ring(const NodeMetadata& metadata, const std::vector<PeerInfo>& peers, const PeerInfo& self,
                const std::string& key, std::string_view file) {
  if (std::ssize(peers) != metadata.clusters)
    fail(file, "{}: there are {} for {} clusters", key, peers.size(), metadata.clusters);
  const PeerInfo& own = peers[metadata.cluster];
  if (own != self) fail(file, "{}/{}: {} is not {}", key, metadata.cluster, own.node, self.node);
  std::set<std::string> nodes;
  for (const PeerInfo& peer : peers) {
    if (!nodes.insert(peer.node).second) fail(file, "{}: {} is there twice", key, peer.node);
  }
  if (const auto apart = unreachable_neighbours(peers)) {
    fail(file, "{}: {} and {} are neighbours, and neither can be reached by the other", key, apart->first,
         apart->second);
  }
}

void check_shares(const NodeMetadata& metadata, std::string_view file) {
  const std::vector<std::int64_t>& shares = metadata.shares.samples;
  if (std::ssize(shares) != metadata.clusters)
    fail(file, "shares: there are {} for {} clusters", shares.size(), metadata.clusters);
  const std::int64_t most = metadata.settings.batch_size;
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (shares[i] > most) fail(file, "shares/{}: {} is more than batch_size, {}", i, shares[i], most);
}

void check_rings(const NodeMetadata& metadata, std::string_view file) {
  const PeerInfo& self = metadata.members[metadata.stage];
  for (const auto& [id, peers] : metadata.ring_peers) {
    check_ring(metadata, peers, self, fmt::format("rings/{}/peers", id), file);
    if (metadata.clusters > 1 && id >= metadata.ring_count)
      fail(file, "rings: {} is not below {}, the number of rings", id, metadata.ring_count);
  }
  if (metadata.clusters == 1) return;
  check_shares(metadata, file);
  check_ring(metadata, metadata.roots, metadata.members.front(), "roots", file);
  for (const PeerInfo& root : metadata.roots) {
    if (root.stage != 0) fail(file, "roots: {} is stage {}", root.node, root.stage);
  }
}

void check_routing(const NodeMetadata& metadata, std::string_view file) {
  const auto check = [&](std::string_view list, const std::string& value, int stage, bool earlier) {
    const bool fits = earlier ? stage < metadata.stage : stage > metadata.stage && stage < metadata.stages;
    if (stage != kNoStage && !fits)
      fail(file, "{}: '{}' cannot come from or go to stage {}", list, value, stage);
  };
  for (const StageInput& input : metadata.inputs) {
    check("inputs", input.value, input.from, true);
    check("inputs", input.value, input.gradient_to, true);
    check("inputs", input.value, input.gradient_from, false);
  }
  for (const StageOutput& output : metadata.outputs) {
    for (const int stage : output.to) check("outputs", output.value, stage, false);
    check("outputs", output.value, output.gradient_from, false);
  }
  std::set<std::string> parameters;
  for (const SharedParameter& shared : metadata.shared) {
    check("shared_parameters", shared.parameter, shared.from, true);
    check("shared_parameters", shared.parameter, shared.gradient_to, true);
    check("shared_parameters", shared.parameter, shared.to, false);
    check("shared_parameters", shared.parameter, shared.gradient_from, false);
    if (!parameters.insert(shared.parameter).second)
      fail(file, "shared_parameters: '{}' is there twice", shared.parameter);
    if (shared.from == kNoStage && (shared.to == kNoStage || shared.gradient_to != kNoStage)) {
      fail(file,
           "shared_parameters: '{}' comes from nobody: then its value goes to somebody, and its gradient to "
           "nobody",
           shared.parameter);
    }
  }
}

// None where a Rookery wrote the file that did not choose.
void check_in_flight(const NodeMetadata& metadata, std::string_view file) {
  const std::vector<int>& planned = metadata.settings.schedule.planned;
  if (planned.empty()) return;
  if (std::ssize(planned) != metadata.stages)
    fail(file, "in_flight: there are {} for {} stages", planned.size(), metadata.stages);
  if (!std::ranges::is_sorted(planned, std::greater<>()))
    fail(file, "in_flight: [{}] rises, with which stages would wait for each other",
         fmt::join(planned, ", "));
}

NodeMetadata metadata_from_json(const Json& document, const std::string& node, const std::string& file) {
  static const Json schema = make_schema();
  check_format(document, kNodeFormat, kNodeVersion, file);
  if (document.at("version") != kNodeVersion) {
    fail(file,
         "version: {} is that of an older Rookery: run clusterize again, and copy node_data to every machine",
         document.at("version").dump());
  }
  validate_json(document, schema, file);

  NodeMetadata metadata{
      .node = document.at("node").get<std::string>(),
      .address = document.at("address").get<std::string>(),
      .threads = document.value("threads", 1),
      .threads_of_host = document.value("threads_of_host", document.value("threads", 1)),
      .plan_id = document.at("plan_id").get<std::string>(),
      .token = document.at("token").get<std::string>(),
      .cluster = document.at("cluster").get<int>(),
      .clusters = document.at("clusters").get<int>(),
      .stage = document.at("stage").get<int>(),
      .stages = document.at("stages").get<int>(),
      .members = peers_from_json(document.at("members"), "members", file),
      .recompute = document.at("recompute").get<bool>(),
      .prediction = prediction_from_json(document.at("prediction")),
      .predicted_step_ms = document.at("predicted_step_ms").get<double>(),
      .kernels = document.at("kernels").get<KernelChoice>(),
      .settings = settings_from_json(document.at("settings"), file + ": settings"),
      .data = {document.at("data").at("train_samples").get<std::int64_t>(),
               document.at("data").at("validation_samples").get<std::int64_t>(),
               document.at("data").at("bytes").get<std::int64_t>(), digest_from_json(document.at("data"))}};
  metadata.settings.schedule.planned = document.value("in_flight", std::vector<int>());
  metadata.model_inputs = document.value("model_inputs", std::set<std::string>());
  metadata.transport = transport_from_json(document, metadata.stages, file);
  for (const Json& input : document.at("inputs")) metadata.inputs.push_back(input_from_json(input));
  for (const Json& output : document.at("outputs")) metadata.outputs.push_back(output_from_json(output));
  for (const Json& shared : document.at("shared_parameters"))
    metadata.shared.push_back(shared_from_json(shared));
  for (const std::string& key : undecided(metadata.settings))
    fail(file, "settings/{}: \"auto\" is for clusterize, which decides it", key);
  read_rings(document.at("rings"), metadata, file);
  metadata.shares = one_cluster(metadata.settings.batch_size);
  metadata.shares.cluster = metadata.cluster;
  if (metadata.clusters > 1) read_roots(document, metadata, file);
  if (const auto resume = document.find("resume"); resume != document.end())
    metadata.resume = resume_point_from_json(*resume);

  if (metadata.node != node) fail(file, "node: this is the file of {}", metadata.node);
  if (metadata.stage >= metadata.stages)
    fail(file, "stage: {} is not below {}, the number of stages", metadata.stage, metadata.stages);
  if (metadata.cluster >= metadata.clusters)
    fail(file, "cluster: {} is not below {}, the number of clusters", metadata.cluster, metadata.clusters);
  if (document.at("role") != metadata.role())
    fail(file, "role: stage {} of {} is the {}, not {}", metadata.stage, metadata.stages, metadata.role(),
         document.at("role").dump());
  check_members(metadata, file);
  check_in_flight(metadata, file);
  check_rings(metadata, file);
  check_routing(metadata, file);
  return metadata;
}

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
