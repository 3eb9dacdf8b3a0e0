#include "clusterize/plan/prediction_json.hpp"

#include "models/base/libraries/json.hpp"

namespace rookery {

OrderedJson to_json(const StagePrediction& prediction) {
  OrderedJson all{{"forward_ms", prediction.forward_ms},
                  {"backward_ms", prediction.backward_ms},
                  {"send_ms", prediction.send_ms},
                  {"update_ms", prediction.update_ms},
                  {"memory",
                   {{"parameters", prediction.memory.parameters},
                    {"versions", prediction.memory.versions},
                    {"gradients", prediction.memory.gradients},
                    {"optimizer", prediction.memory.optimizer},
                    {"stash", prediction.memory.stash},
                    {"workspace", prediction.memory.workspace},
                    {"program", prediction.memory.program},
                    {"transport", prediction.transport_bytes},
                    {"dataset", prediction.dataset_bytes}}}};
  if (prediction.memory.kept > 0) all["memory"]["kept"] = prediction.memory.kept;
  if (prediction.averaging_bytes > 0) all["memory"]["averaging"] = prediction.averaging_bytes;
  return all;
}

StagePrediction prediction_from_json(const Json& document) {
  const Json& memory = document.at("memory");
  return {.forward_ms = document.at("forward_ms").get<double>(),
          .backward_ms = document.at("backward_ms").get<double>(),
          .send_ms = document.at("send_ms").get<double>(),
          .update_ms = document.at("update_ms").get<double>(),
          .memory = {.parameters = memory.at("parameters").get<std::int64_t>(),
                     .versions = memory.value("versions", std::int64_t{0}),
                     .kept = memory.value("kept", std::int64_t{0}),
                     .gradients = memory.at("gradients").get<std::int64_t>(),
                     .optimizer = memory.at("optimizer").get<std::int64_t>(),
                     .stash = memory.at("stash").get<std::int64_t>(),
                     .workspace = memory.at("workspace").get<std::int64_t>(),
                     .program = memory.at("program").get<std::int64_t>()},
          .transport_bytes = memory.at("transport").get<std::int64_t>(),
          .dataset_bytes = memory.at("dataset").get<std::int64_t>(),
          .averaging_bytes = memory.value("averaging", std::int64_t{0})};
}

const Json& prediction_schema() {
  static const Json schema = Json::parse(R"({
    "type": "object", "additionalProperties": false,
    "required": ["forward_ms", "backward_ms", "send_ms", "update_ms", "memory"],
    "properties": {
      "forward_ms": {"type": "number", "minimum": 0},
      "backward_ms": {"type": "number", "minimum": 0},
      "send_ms": {"type": "number", "minimum": 0},
      "update_ms": {"type": "number", "minimum": 0},
      "memory": {
        "type": "object",
        "required": ["parameters", "gradients", "optimizer", "stash", "workspace", "program", "transport", "dataset"],
        "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 1125899906842624}}}
  })");
  return schema;
}

OrderedJson to_json(const StageInput& input) {
  OrderedJson document = {{"value", input.value}};
  if (input.from != kNoStage) document["from"] = input.from;
  if (input.gradient_to != kNoStage) document["gradient_to"] = input.gradient_to;
  if (input.gradient_from != kNoStage) document["gradient_from"] = input.gradient_from;
  return document;
}

OrderedJson to_json(const StageOutput& output) {
  OrderedJson document = {{"value", output.value}, {"to", output.to}};
  if (output.gradient_from != kNoStage) document["gradient_from"] = output.gradient_from;
  return document;
}

OrderedJson to_json(const SharedParameter& shared) {
  OrderedJson document = {{"parameter", shared.parameter}};
  if (shared.from != kNoStage) document["from"] = shared.from;
  if (shared.to != kNoStage) document["to"] = shared.to;
  if (shared.gradient_to != kNoStage) document["gradient_to"] = shared.gradient_to;
  if (shared.gradient_from != kNoStage) document["gradient_from"] = shared.gradient_from;
  return document;
}

StageInput input_from_json(const Json& document) {
  return {.value = document.at("value").get<std::string>(),
          .from = document.value("from", kNoStage),
          .gradient_to = document.value("gradient_to", kNoStage),
          .gradient_from = document.value("gradient_from", kNoStage)};
}

StageOutput output_from_json(const Json& document) {
  return {.value = document.at("value").get<std::string>(),
          .to = document.at("to").get<std::vector<int>>(),
          .gradient_from = document.value("gradient_from", kNoStage)};
}

SharedParameter shared_from_json(const Json& document) {
  return {.parameter = document.at("parameter").get<std::string>(),
          .from = document.value("from", kNoStage),
          .to = document.value("to", kNoStage),
          .gradient_to = document.value("gradient_to", kNoStage),
          .gradient_from = document.value("gradient_from", kNoStage)};
}

const Json& input_schema() {
  static const Json schema = Json::parse(R"({
    "type": "object", "required": ["value"],
    "properties": {
      "value": {"type": "string", "minLength": 1},
      "from": {"type": "integer", "minimum": 0, "maximum": 999},
      "gradient_to": {"type": "integer", "minimum": 0, "maximum": 999},
      "gradient_from": {"type": "integer", "minimum": 0, "maximum": 999}}
  })");
  return schema;
}

const Json& shared_schema() {
  static const Json schema = Json::parse(R"({
    "type": "object", "required": ["parameter"], "additionalProperties": false,
    "properties": {
      "parameter": {"type": "string", "minLength": 1},
      "from": {"type": "integer", "minimum": 0, "maximum": 999},
      "to": {"type": "integer", "minimum": 0, "maximum": 999},
      "gradient_to": {"type": "integer", "minimum": 0, "maximum": 999},
      "gradient_from": {"type": "integer", "minimum": 0, "maximum": 999}}
  })");
  return schema;
}

const Json& output_schema() {
  static const Json schema = Json::parse(R"({
    "type": "object", "required": ["value", "to"],
    "properties": {
      "value": {"type": "string", "minLength": 1},
      "to": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 999}},
      "gradient_from": {"type": "integer", "minimum": 0, "maximum": 999}}
  })");
  return schema;
}

}  // namespace rookery
