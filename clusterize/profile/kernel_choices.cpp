#include "clusterize/profile/kernel_choices.hpp"

#include "models/base/error.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

constexpr const char* kChoicesFormat = "rookery.kernel_choices";
constexpr std::int64_t kChoicesVersion = 1;

using Machines = std::map<std::string, MeasuredKernels::Known>;

Json make_schema() {
  return Json::parse(R"({
    "type": "object",
    "required": ["format", "version", "machines"],
    "additionalProperties": false,
    "properties": {
      "format": {"type": "string"},
      "version": {"type": "integer"},
      "machines": {
        "type": "object",
        "additionalProperties": {"type": "object", "additionalProperties": {"type": "string"}}
      }
    }
  })");
}

Machines read_machines(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  static const Json schema = make_schema();
  try {
    const Json document = read_json(file);
    check_format(document, kChoicesFormat, kChoicesVersion, file.string());
    validate_json(document, schema, file.string());
    return document.at("machines").get<Machines>();
  } catch (const ConfigError& error) {
    throw ConfigError(std::string(error.what()) + "; without the file kernels are measured again");
  }
}

}  // namespace

std::filesystem::path kernel_choices_path(const std::filesystem::path& node_data) {
  return node_data / "kernel_choices.json";
}

MeasuredKernels::Known read_kernel_choices(const std::filesystem::path& file, const std::string& machine) {
  Machines machines = read_machines(file);
  return std::move(machines[machine]);
}

void write_kernel_choices(const std::filesystem::path& file, const std::string& machine,
                          const MeasuredKernels::Known& known) {
  Machines machines = read_machines(file);
  if (known.empty() || machines[machine] == known) return;
  machines[machine] = known;
  write_json(file, {{"format", kChoicesFormat}, {"version", kChoicesVersion}, {"machines", machines}});
}

}  // namespace rookery
