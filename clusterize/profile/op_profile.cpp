#include "clusterize/profile/op_profile.hpp"

#include "models/base/error.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/kernels/measured.hpp"

namespace rookery {
namespace {

constexpr const char* kProfileFormat = "rookery.op_profile";
constexpr std::int64_t kProfileVersion = 2;  // 1 had the times of one thread

const Json& schema() {
  static const Json schema = Json::parse(R"({
    "type": "object", "additionalProperties": false,
    "required": ["format", "version", "machine", "model", "micro_batch", "kernels", "input_seconds", "threads"],
    "properties": {
      "format": {}, "version": {},
      "machine": {"type": "string"}, "model": {"type": "string"},
      "micro_batch": {"type": "integer", "minimum": 1, "maximum": 1048576},
      "kernels": {"type": "object", "additionalProperties": {"type": "string"}},
      "input_seconds": {"$ref": "#/definitions/seconds"},
      "threads": {
        "type": "object", "minProperties": 1, "additionalProperties": false,
        "patternProperties": {"^[1-9][0-9]{0,3}$": {
          "type": "object", "additionalProperties": false,
          "required": ["gflops", "update_seconds_per_byte", "ops"],
          "properties": {
            "gflops": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e9},
            "update_seconds_per_byte": {"$ref": "#/definitions/seconds"},
            "ops": {"type": "object", "additionalProperties": {
              "type": "object", "additionalProperties": false,
              "required": ["type", "output", "forward", "backward_inputs", "backward_weights"],
              "properties": {
                "type": {"type": "string"}, "output": {"type": "string"},
                "forward": {"$ref": "#/definitions/seconds"},
                "backward_inputs": {"$ref": "#/definitions/seconds"},
                "backward_weights": {"$ref": "#/definitions/seconds"}}}}}}}}},
    "definitions": {"seconds": {"type": "number", "minimum": 0, "maximum": 1e6}}
  })");
  return schema;
}

ThreadTimes times_from_json(const Json& document) {
  ThreadTimes times{.gflops = document.at("gflops").get<double>(),
                    .update_seconds_per_byte = document.at("update_seconds_per_byte").get<double>()};
  for (const auto& [name, op] : document.at("ops").items()) {
    times.ops[name] = {.type = op.at("type").get<std::string>(),
                       .output = op.at("output").get<std::string>(),
                       .forward = op.at("forward").get<double>(),
                       .backward_inputs = op.at("backward_inputs").get<double>(),
                       .backward_weights = op.at("backward_weights").get<double>()};
  }
  return times;
}

OpProfile from_json(const Json& document) {
  OpProfile profile{.machine = document.at("machine").get<std::string>(),
                    .model = document.at("model").get<std::string>(),
                    .micro_batch = document.at("micro_batch").get<std::int64_t>(),
                    .kernels = document.at("kernels").get<KernelChoice>(),
                    .input_seconds = document.at("input_seconds").get<double>()};
  for (const auto& [threads, times] : document.at("threads").items())
    profile.threads[std::stoi(threads)] = times_from_json(times);
  return profile;
}

OrderedJson to_json(const ThreadTimes& times) {
  OrderedJson ops = OrderedJson::object();
  for (const auto& [name, op] : times.ops) {
    ops[name] = {{"type", op.type},
                 {"output", op.output},
                 {"forward", op.forward},
                 {"backward_inputs", op.backward_inputs},
                 {"backward_weights", op.backward_weights}};
  }
  return {{"gflops", times.gflops}, {"update_seconds_per_byte", times.update_seconds_per_byte}, {"ops", ops}};
}

std::string op_problem(const ThreadTimes& times, const Op& op, const std::string& output) {
  const auto found = times.ops.find(op.name);
  if (found == times.ops.end()) return fmt::format("it has no times of the op '{}'", op.name);
  if (found->second.type == op.type && found->second.output == output) return {};
  return fmt::format("its op '{}' is a {} that makes {}, and not a {} that makes {}", op.name,
                     found->second.type, found->second.output, op.type, output);
}

}  // namespace

std::filesystem::path op_profile_path(const std::filesystem::path& node_data) {
  return node_data / "op_profile.json";
}

void write_profile(const std::filesystem::path& file, const OpProfile& profile) {
  OrderedJson threads = OrderedJson::object();
  for (const auto& [number, times] : profile.threads) threads[fmt::to_string(number)] = to_json(times);
  write_json(file, {{"format", kProfileFormat},
                    {"version", kProfileVersion},
                    {"machine", profile.machine},
                    {"model", profile.model},
                    {"micro_batch", profile.micro_batch},
                    {"input_seconds", profile.input_seconds},
                    {"threads", threads},
                    {"kernels", profile.kernels}});
}

std::optional<OpProfile> read_profile(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  try {
    const Json document = read_json(file);
    check_format(document, kProfileFormat, kProfileVersion, file.string());
    if (document.at("version") != kProfileVersion) {
      throw ConfigError(fmt::format("{}: version: {} is that of an older Rookery, which measured one thread",
                                    file.string(), document.at("version").dump()));
    }
    validate_json(document, schema(), file.string());
    return from_json(document);
  } catch (const ConfigError& error) {
    throw ConfigError(std::string(error.what()) +
                      "; measure it anew with clusterize --profile, or remove the file");
  }
}

std::string profile_problem(const OpProfile& profile, const Graph& graph, const TrainingSettings& settings,
                            const KernelChoice& kernels) {
  const std::int64_t micro_batch = micro_batch_sizes(settings, settings.batch_size).front();
  if (profile.model != settings.model)
    return fmt::format("it was measured for {}, not for {}", profile.model, settings.model);
  if (profile.micro_batch != micro_batch)
    return fmt::format("it was measured for micro-batches of {}, not of {}", profile.micro_batch,
                       micro_batch);
  const std::vector<TensorType> types = graph.types(micro_batch);
  for (const Op& op : graph.ops()) {
    const std::string output = types[op.outputs.at(0)].to_string();
    for (const auto& [threads, times] : profile.threads) {
      if (std::string problem = op_problem(times, op, output); !problem.empty()) return problem;
    }
  }
  if (profile.kernels != kernels) return "it was measured with other kernels";
  return {};
}

}  // namespace rookery
