#include "clusterize/plan/node_metadata/metadata_json.hpp"

#include <charconv>
#include <set>
#include <utility>

#include "clusterize/plan/node_metadata/check_metadata.hpp"
#include "clusterize/plan/prediction_json.hpp"
#include "clusterize/pool/address.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

constexpr const char* kNodeFormat = "rookery.node";
constexpr std::int64_t kNodeVersion = 2;

OrderedJson to_json(const PeerInfo& peer) {
  OrderedJson all = {{"node", peer.node}, {"address", peer.address}, {"stage", peer.stage}};
  if (!peer.reachable) all["reachable"] = false;
  if (peer.connections > 1) all["connections"] = peer.connections;
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
                       "peers": {"$ref": "#/definitions/peers"}, "under_way": {"$ref": "#/definitions/bytes"}}}},
      "model_inputs": {"type": "array", "items": {"type": "string"}},
      "transport": {"type": "array", "items": {
        "type": "object", "required": ["from", "to", "activations", "gradients"], "additionalProperties": false,
        "properties": {"from": {"$ref": "#/definitions/index"}, "to": {"$ref": "#/definitions/index"},
                       "activations": {"$ref": "#/definitions/encoding_of_activations"},
                       "gradients": {"$ref": "#/definitions/encoding"}}}},
      "roots": {"$ref": "#/definitions/peers"},
      "ring_count": {"$ref": "#/definitions/count"},
      "shares": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 1048576}},
      "recompute": {"type": "boolean"},
      "in_flight": {"type": "array", "items": {"$ref": "#/definitions/count"}},
      "updates_ahead": {"type": "boolean"},
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
      "node": {"type": "string", "pattern": "^node_[0-9]{1,6}([.][1-9][0-9]?)?$"},
      "index": {"type": "integer", "minimum": 0, "maximum": 999999},
      "encoding": {"enum": ["none", "fp16", "bf16", "int8", "int4"]},
      "encoding_of_activations": {"enum": ["none", "fp16", "bf16", "int8", "int4", "int8_delta", "int4_delta"]},
      "count": {"type": "integer", "minimum": 1, "maximum": 1000000},
      "threads": {"type": "integer", "minimum": 1, "maximum": 1024},
      "bytes": {"type": "integer", "minimum": 1, "maximum": 67108864},
      "peers": {"type": "array", "items": {
        "type": "object", "required": ["node", "address", "stage"], "additionalProperties": false,
        "properties": {"node": {"$ref": "#/definitions/node"}, "address": {"type": "string"},
                       "stage": {"$ref": "#/definitions/index"}, "reachable": {"type": "boolean"},
                       "connections": {"type": "integer", "minimum": 1}}}}}
  })");
  schema["definitions"]["peers"]["items"]["properties"]["connections"]["maximum"] = kMostDataConnections;
  schema["properties"]["prediction"] = prediction_schema();
  schema["properties"]["resume"] = resume_schema();
  schema["properties"]["inputs"] = {{"type", "array"}, {"items", input_schema()}};
  schema["properties"]["outputs"] = {{"type", "array"}, {"items", output_schema()}};
  schema["properties"]["shared_parameters"] = {{"type", "array"}, {"items", shared_schema()}};
  return schema;
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
      fail_metadata(file, "transport: there is no link from stage {} to stage {} of {}", from, to, stages);
  }
  return transport;
}

std::vector<PeerInfo> peers_from_json(const Json& list, std::string_view key, std::string_view file) {
  std::vector<PeerInfo> peers;
  for (const Json& entry : list) {
    peers.push_back({entry.at("node").get<std::string>(), entry.at("address").get<std::string>(),
                     entry.at("stage").get<int>(), entry.value("reachable", true),
                     entry.value("connections", 1)});
    const std::string& address = peers.back().address;
    if (const std::string problem = address_problem(address); !problem.empty())
      fail_metadata(file, "{}/{}/address: '{}' {}", key, peers.size() - 1, address, problem);
  }
  return peers;
}

void read_rings(const Json& list, NodeMetadata& metadata, std::string_view file) {
  for (const Json& ring : list) {
    const int id = ring.at("id").get<int>();
    RingMembership read{.first_parameter = ring.at("first_parameter").get<std::string>(),
                        .peers = peers_from_json(ring.at("peers"), fmt::format("rings/{}/peers", id), file)};
    if (ring.contains("under_way")) read.under_way = ring.at("under_way").get<std::uint64_t>();
    if (!metadata.rings.emplace(id, std::move(read)).second)
      fail_metadata(file, "rings: ring {} is there twice", id);
  }
}

void read_roots(const Json& document, NodeMetadata& metadata, std::string_view file) {
  for (const char* key : {"roots", "ring_count", "shares", "predicted_averaging_ms", "predicted_round_ms"}) {
    if (!document.contains(key))
      fail_metadata(file, "'{}' is missing in a plan of {} clusters", key, metadata.clusters);
  }
  metadata.roots = peers_from_json(document.at("roots"), "roots", file);
  metadata.ring_count = document.at("ring_count").get<int>();
  metadata.predicted_averaging_ms = document.at("predicted_averaging_ms").get<double>();
  metadata.predicted_round_ms = document.at("predicted_round_ms").get<double>();
  metadata.shares.samples = document.at("shares").get<std::vector<std::int64_t>>();
  metadata.fragments = document.value("fragments", std::map<std::string, int>());
}

}  // namespace

OrderedJson to_json(const NodeMetadata& metadata) {
  OrderedJson rings = OrderedJson::array();
  for (const auto& [id, ring] : metadata.rings) {
    rings.push_back({{"id", id}, {"first_parameter", ring.first_parameter}, {"peers", to_json(ring.peers)}});
    if (ring.under_way) rings.back()["under_way"] = *ring.under_way;
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
  if (metadata.settings.schedule.updates_ahead) all["updates_ahead"] = true;
  if (metadata.resume) all["resume"] = to_json(*metadata.resume);
  return all;
}

NodeMetadata metadata_from_json(const Json& document, const std::string& node, const std::string& file) {
  static const Json schema = make_schema();
  check_format(document, kNodeFormat, kNodeVersion, file);
  if (document.at("version") != kNodeVersion) {
    fail_metadata(
        file,
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
  metadata.settings.schedule.updates_ahead = document.value("updates_ahead", false);
  metadata.model_inputs = document.value("model_inputs", std::set<std::string>());
  metadata.transport = transport_from_json(document, metadata.stages, file);
  for (const Json& input : document.at("inputs")) metadata.inputs.push_back(input_from_json(input));
  for (const Json& output : document.at("outputs")) metadata.outputs.push_back(output_from_json(output));
  for (const Json& shared : document.at("shared_parameters"))
    metadata.shared.push_back(shared_from_json(shared));
  for (const std::string& key : undecided(metadata.settings))
    fail_metadata(file, "settings/{}: \"auto\" is for clusterize, which decides it", key);
  read_rings(document.at("rings"), metadata, file);
  metadata.shares = one_cluster(metadata.settings.batch_size);
  metadata.shares.cluster = metadata.cluster;
  if (metadata.clusters > 1) read_roots(document, metadata, file);
  if (const auto resume = document.find("resume"); resume != document.end())
    metadata.resume = resume_point_from_json(*resume);

  if (metadata.node != node) fail_metadata(file, "node: this is the file of {}", metadata.node);
  check_metadata(metadata, file);
  if (document.at("role") != metadata.role())
    fail_metadata(file, "role: stage {} of {} is the {}, not {}", metadata.stage, metadata.stages,
                  metadata.role(), document.at("role").dump());
  return metadata;
}

}  // namespace rookery
