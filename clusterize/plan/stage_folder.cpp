#include "clusterize/plan/stage_folder.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "clusterize/plan/prediction_json.hpp"
#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/io/onnx/onnx.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "models/tensor/dtype_named.hpp"

namespace rookery {
namespace {

constexpr const char* kInputFormat = "rookery.stage_inputs";
constexpr const char* kOutputFormat = "rookery.stage_outputs";
constexpr const char* kModelInputFormat = "rookery.model_inputs";
constexpr std::int64_t kStageVersion = 2;  // 1 had no plan_id
constexpr const char* kOnnxFile = "submod.onnx";
constexpr const char* kModelInputsFile = "model_inputs.json";

// ---- Types of values, with "batch" where they follow the micro-batch -------------------------

void add_type(OrderedJson& document, const TensorType& type) {
  OrderedJson shape = OrderedJson::array();
  for (const std::int64_t dimension : type.shape.dims())
    shape.push_back(dimension == kBatch ? OrderedJson("batch") : OrderedJson(dimension));
  document["dtype"] = name_of(type.dtype);
  document["shape"] = shape;
}

// The document has passed the schema below.
TensorType type_from_json(const Json& document) {
  const std::optional<DType> dtype = dtype_named(document.at("dtype").get<std::string>());
  if (!dtype) throw ConfigError(fmt::format("there is no dtype {}", document.at("dtype").dump()));
  std::vector<std::int64_t> dims;
  for (const Json& dimension : document.at("shape"))
    dims.push_back(dimension.is_string() ? kBatch : dimension.get<std::int64_t>());
  return {*dtype, Shape(std::span<const std::int64_t>(dims))};
}

Json routing_schema(const char* list, Json edge) {
  edge["required"].push_back("dtype");
  edge["required"].push_back("shape");
  edge["properties"]["dtype"] = {{"type", "string"}};
  edge["properties"]["shape"] = Json::parse(R"({"type": "array", "maxItems": 8, "items": {
    "anyOf": [{"enum": ["batch"]}, {"type": "integer", "minimum": 1, "maximum": 1099511627776}]}})");
  edge["additionalProperties"] = false;
  Json schema = Json::parse(R"({"type": "object", "required": ["plan_id", "stage", "stages"],
    "properties": {"plan_id": {"type": "string"}, "stage": {"type": "integer"}, "stages": {"type": "integer"}}})");
  schema["required"].push_back(list);
  schema["properties"][list] = {{"type", "array"}, {"items", edge}};
  return schema;
}

// ---- Copies of a graph ----------------------------------------------------------------------

struct NamedType {
  std::string name;
  TensorType type;
};

// Copies ops of a graph into a new one, in the order in which cut() does: state, and the inputs of
// all stages but the first, where they are first used. The memory plan follows that order.
class Selection {
 public:
  Selection(const Graph& whole, const std::vector<NamedType>& inputs) : whole_(whole) {
    for (const NamedType& input : inputs) waiting_.emplace(input.name, input.type);
  }

  void add_input(const std::string& name) {
    const auto input = waiting_.find(name);
    if (input == waiting_.end()) return;
    graph_.add_input(name, input->second);
    waiting_.erase(input);
  }

  void add_op(const Op& op) {
    Op copy = op;
    for (ValueId& input : copy.inputs) {
      if (input != kNoValue) input = copy_of(whole_.value(input));
    }
    copy.outputs.clear();
    std::vector<std::string> names;
    for (const ValueId output : op.outputs) names.push_back(whole_.value(output).name);
    graph_.add_op(std::move(copy), names);
  }

  Graph finish(const std::vector<std::string>& outputs) {
    for (const std::string& output : outputs) graph_.mark_output(graph_.at(output));
    return std::move(graph_);
  }

 private:
  ValueId copy_of(const Value& value) {
    if (const std::optional<ValueId> known = graph_.find(value.name)) return *known;
    if (value.kind != ValueKind::kInput && value.kind != ValueKind::kActivation)
      return graph_.add_source(value);
    add_input(value.name);
    return graph_.at(value.name);
  }

  const Graph& whole_;                         // outlives the selection: both live in one function
  std::map<std::string, TensorType> waiting_;  // inputs that are still to come
  Graph graph_;
};

bool is_loss(const Op& op) {
  return op_definition(op.type).is_loss;
}

// The part of a stage that computes the model's output: without the loss, and without labels and
// whatever else only passes through.
Graph inference_graph(const Graph& graph) {
  std::vector<bool> used(graph.values().size(), false);
  std::vector<bool> made(graph.values().size(), false);
  for (const Op& op : graph.ops()) {
    if (is_loss(op)) continue;
    for (const ValueId input : op.inputs) {
      if (input != kNoValue) used[input] = true;
    }
    for (const ValueId output : op.outputs) made[output] = true;
  }
  std::vector<NamedType> inputs;
  for (const ValueId id : graph.inputs()) {
    if (used[id]) inputs.push_back({graph.value(id).name, graph.value(id).type});
  }
  std::vector<std::string> outputs;
  for (const ValueId id : graph.outputs()) {
    if (made[id]) outputs.push_back(graph.value(id).name);
  }
  Selection selection(graph, inputs);
  for (const NamedType& input : inputs) selection.add_input(input.name);
  for (const Op& op : graph.ops()) {
    if (!is_loss(op)) selection.add_op(op);
  }
  return selection.finish(outputs);
}

// The stage as it was before it was written: `model` with the inputs that only pass through.
Graph stage_graph(const Graph& model, const Stage& stage, const std::vector<NamedType>& inputs,
                  const std::vector<std::string>& outputs) {
  Selection selection(model, inputs);
  if (stage.is_root()) {
    for (const NamedType& input : inputs) selection.add_input(input.name);
  }
  for (const Op& op : model.ops()) selection.add_op(op);
  for (const NamedType& input : inputs) selection.add_input(input.name);
  Graph graph = selection.finish(outputs);
  std::vector<std::string> names;
  for (const ValueId id : graph.inputs()) names.push_back(graph.value(id).name);
  if (!std::ranges::equal(names, inputs, {}, {}, &NamedType::name))
    throw ConfigError(fmt::format("its inputs are, in this order: {}", fmt::join(names, ", ")));
  return graph;
}

// ---- Routing files --------------------------------------------------------------------------

std::filesystem::path routing_path(const std::filesystem::path& folder, int stage, const char* what) {
  return folder / fmt::format("submod_{}_{}.json", stage, what);
}

template <typename Edge>
void write_routing(const std::filesystem::path& path, const char* format, const char* list,
                   const std::string& plan_id, const Stage& stage, const std::vector<Edge>& edges,
                   const std::vector<TensorType>& types) {
  OrderedJson entries = OrderedJson::array();
  for (const Edge& edge : edges) {
    OrderedJson entry = to_json(edge);
    add_type(entry, types[stage.graph.at(edge.value)]);
    entries.push_back(entry);
  }
  write_json(path, {{"format", format},
                    {"version", kStageVersion},
                    {kPlanId, plan_id},
                    {"stage", stage.index},
                    {"stages", stage.count},
                    {list, entries}});
}

void write_model_inputs(const std::filesystem::path& folder, const std::string& plan_id, const Stage& stage,
                        const std::vector<TensorType>& types) {
  OrderedJson inputs = OrderedJson::array();
  for (const StageInput& input : stage.inputs) {
    OrderedJson entry = {{"value", input.value}};
    add_type(entry, types[stage.graph.at(input.value)]);
    inputs.push_back(entry);
  }
  write_json(
      folder / kModelInputsFile,
      {{"format", kModelInputFormat}, {"version", kStageVersion}, {kPlanId, plan_id}, {"inputs", inputs}});
}

// `found` is what the file says of its plan; empty: nothing.
void check_plan_id(const std::filesystem::path& path, const std::string& found,
                   const NodeMetadata& metadata) {
  if (found == metadata.plan_id) return;
  if (found.empty()) {
    throw ConfigError(
        fmt::format("{}: does not say which plan it belongs to: run clusterize again", path.string()));
  }
  throw ConfigError(fmt::format(
      "{}: belongs to plan {}, but nodes/{}.json to plan {}: copy node_data from the same clusterize run to "
      "every machine",
      path.string(), found, metadata.node, metadata.plan_id));
}

void check_plan_id(const std::filesystem::path& path, const Metadata& found, const NodeMetadata& metadata) {
  const auto entry = found.find(kPlanId);
  check_plan_id(path, entry == found.end() ? std::string() : entry->second, metadata);
}

// Of the graph and of the files of its weights.
void check_plan_ids(const std::filesystem::path& folder, const NodeMetadata& metadata) {
  const std::filesystem::path path = folder / kOnnxFile;
  const OnnxHeader header = read_onnx_header(path);
  check_plan_id(path, header.metadata, metadata);
  for (const std::string& name : header.weights) {
    if (!is_weights_file(name)) {
      throw ConfigError(
          fmt::format("{}: its weights are in '{}', which is no file of a stage: run clusterize again",
                      path.string(), name));
    }
    check_plan_id(folder / name, safetensors_metadata(folder / name), metadata);
  }
}

// The entries of a routing file that belongs to this stage.
Json read_routing(const std::filesystem::path& path, const char* format, const char* list,
                  const Json& edge_schema, const NodeMetadata& metadata) {
  const Json document = read_json(path);
  check_format(document, format, kStageVersion, path.string());
  if (document.at("version") < kStageVersion) check_plan_id(path, std::string(), metadata);
  validate_json(document, routing_schema(list, edge_schema), path.string());
  check_plan_id(path, document.at(kPlanId).get<std::string>(), metadata);
  if (document.at("stage") != metadata.stage || document.at("stages") != metadata.stages) {
    throw ConfigError(fmt::format("{}: stage {} of {}, but {} is stage {} of {}: run clusterize again",
                                  path.string(), document.at("stage").dump(), document.at("stages").dump(),
                                  metadata.node, metadata.stage, metadata.stages));
  }
  return document.at(list);
}

template <typename Edge>
void check_recorded(const std::vector<Edge>& edges, const std::vector<Edge>& recorded,
                    const std::filesystem::path& path, const NodeMetadata& metadata) {
  if (metadata.inputs.empty() && metadata.outputs.empty()) return;
  if (edges == recorded) return;
  throw ConfigError(fmt::format("{}: the routing is not that of {}.json: run clusterize again", path.string(),
                                metadata.node));
}

void check_shared(const Graph& graph, const NodeMetadata& metadata) {
  for (const SharedParameter& shared : metadata.shared) {
    const std::optional<ValueId> id = graph.find(shared.parameter);
    if (id && graph.value(*id).kind == ValueKind::kParameter) continue;
    throw ConfigError(
        fmt::format("{}.json: shared_parameters: '{}' is no parameter of {}: run clusterize again",
                    metadata.node, shared.parameter, kOnnxFile));
  }
}

// Values that `graph` does not know pass through the stage.
void check_types(const Graph& graph, const std::vector<NamedType>& declared,
                 const std::filesystem::path& path) {
  const std::vector<TensorType> types = batch_types(graph);
  for (const NamedType& value : declared) {
    const std::optional<ValueId> id = graph.find(value.name);
    if (!id || types[*id] == value.type) continue;
    throw ConfigError(fmt::format("{}: '{}' is {}, in {} it is {}", path.string(), value.name,
                                  value.type.to_string(), kOnnxFile, types[*id].to_string()));
  }
}

}  // namespace

void write_stage(const std::filesystem::path& folder, const Stage& stage, PlanWeights& weights) {
  make_directories(folder);
  const std::string& plan_id = weights.metadata().at(kPlanId);
  write_onnx(folder / kOnnxFile, weights.put(folder, stage.graph), inference_graph(stage.graph),
             weights.metadata());
  const std::vector<TensorType> types = batch_types(stage.graph);
  write_routing(routing_path(folder, stage.index, "input"), kInputFormat, "inputs", plan_id, stage,
                stage.inputs, types);
  write_routing(routing_path(folder, stage.index, "output"), kOutputFormat, "outputs", plan_id, stage,
                stage.outputs, types);
  if (stage.is_root()) write_model_inputs(folder, plan_id, stage, types);
}

LoadedStage read_stage(const std::filesystem::path& folder, const NodeMetadata& metadata) {
  const std::filesystem::path input_path = routing_path(folder, metadata.stage, "input");
  const std::filesystem::path output_path = routing_path(folder, metadata.stage, "output");
  // First of all: what else is wrong with files of another plan would mislead.
  check_plan_ids(folder, metadata);
  OnnxModel model = read_onnx(folder / kOnnxFile);

  LoadedStage loaded{.stage = {.index = metadata.stage, .count = metadata.stages}};
  Stage& stage = loaded.stage;
  std::vector<NamedType> inputs;
  std::vector<NamedType> outputs;
  for (const Json& entry : read_routing(input_path, kInputFormat, "inputs", input_schema(), metadata)) {
    stage.inputs.push_back(input_from_json(entry));
    inputs.push_back({stage.inputs.back().value,
                      with_context(input_path.string(), [&] { return type_from_json(entry); })});
  }
  std::vector<std::string> names;
  for (const Json& entry : read_routing(output_path, kOutputFormat, "outputs", output_schema(), metadata)) {
    stage.outputs.push_back(output_from_json(entry));
    names.push_back(stage.outputs.back().value);
    outputs.push_back(
        {names.back(), with_context(output_path.string(), [&] { return type_from_json(entry); })});
  }
  check_recorded(stage.inputs, metadata.inputs, input_path, metadata);
  check_recorded(stage.outputs, metadata.outputs, output_path, metadata);

  with_context((folder / kOnnxFile).string(), [&] {
    if (stage.index != stage.count - 1) return;
    ValueTypes types;  // of what the losses take and the stage does not make
    for (const NamedType& input : inputs) types.emplace(input.name, input.type);
    add_loss(model.graph, metadata.settings.loss, types);
  });
  check_types(model.graph, inputs, input_path);
  with_context((folder / kOnnxFile).string(), [&] {
    stage.graph = stage_graph(model.graph, stage, inputs, names);
    check_state(stage.graph, model.state);
  });
  check_types(stage.graph, outputs, output_path);
  check_shared(stage.graph, metadata);
  stage.shared = metadata.shared;
  loaded.state = std::move(model.state);
  return loaded;
}

bool holds_stage(const std::filesystem::path& folder, const NodeMetadata& metadata) {
  try {
    check_plan_ids(folder, metadata);
    read_routing(routing_path(folder, metadata.stage, "input"), kInputFormat, "inputs", input_schema(),
                 metadata);
    read_routing(routing_path(folder, metadata.stage, "output"), kOutputFormat, "outputs", output_schema(),
                 metadata);
    return metadata.stage > 0 || std::filesystem::exists(folder / kModelInputsFile);
  } catch (const Error&) {
    return false;
  }
}

bool is_stage_file(const std::string& name) {
  return name == kOnnxFile || is_weights_file(name) || name == kModelInputsFile ||
         (name.starts_with("submod_") && (name.ends_with("_input.json") || name.ends_with("_output.json")));
}

}  // namespace rookery
