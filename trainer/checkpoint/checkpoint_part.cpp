#include "trainer/checkpoint/checkpoint_part.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <system_error>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/parse.hpp"

namespace rookery {
namespace {

constexpr const char* kFormat = "rookery.checkpoint";
constexpr const char* kVersion = "1";

// Of one to six digits.
std::optional<int> part_number(std::string_view digits) {
  return digits.size() > 6 || digits.starts_with('-') ? std::nullopt : number_from<int>(digits);
}

const std::string& entry(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) throw DataError(fmt::format("its metadata has no '{}'", key));
  return found->second;
}

void check_format(const Metadata& metadata) {
  if (entry(metadata, "format") != kFormat)
    throw DataError(fmt::format("this is no part of a checkpoint, but '{}'", entry(metadata, "format")));
  if (entry(metadata, "version") != kVersion) {
    throw DataError(fmt::format("format version {}, this program knows {}: use a newer Rookery",
                                entry(metadata, "version"), kVersion));
  }
}

std::string file_name(const std::string& plan_id, const std::string& cluster, const std::string& stage,
                      const std::string& stages) {
  return fmt::format("{}{}_{}_of_{}.safetensors", plan_id, cluster == "0" ? "" : "_cluster_" + cluster, stage,
                     stages);
}

// That it is the part that its name says, of the step that its folder says.
void check_name(const std::filesystem::path& path, const Metadata& metadata, std::int64_t step) {
  const std::string cluster = metadata.contains("cluster") ? metadata.at("cluster") : "0";
  const std::string name =
      file_name(entry(metadata, "plan_id"), cluster, entry(metadata, "stage"), entry(metadata, "stages"));
  if (path.filename() == name && step_of_folder(path.parent_path()).value_or(step) == step) return;
  throw DataError(
      fmt::format("this is {} of step {}, and not what its name says: was it renamed?", name, step));
}

CheckpointFacts facts_from(const Metadata& metadata) {
  try {
    return {.run = run_state_from(entry(metadata, "run")),
            .settings = settings_from_json(Json::parse(entry(metadata, "settings")), "settings"),
            .kernels = Json::parse(entry(metadata, "kernels")).get<KernelChoice>()};
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("its metadata cannot be read: {}", error.what()));
  } catch (const ConfigError& error) {
    throw DataError(fmt::format("its metadata cannot be read: {}", error.what()));
  }
}

}  // namespace

std::filesystem::path checkpoints_folder(const std::filesystem::path& node_data) {
  return node_data / "checkpoints";
}

std::filesystem::path part_path(const CheckpointOwner& owner, std::int64_t step) {
  return checkpoints_folder(owner.node_data) / fmt::to_string(step) /
         file_name(owner.plan_id, fmt::to_string(owner.cluster), fmt::to_string(owner.stage),
                   fmt::to_string(owner.stages));
}

std::vector<std::int64_t> part_steps(const CheckpointOwner& owner) {
  std::vector<std::int64_t> steps;
  std::error_code code;
  for (const auto& folder : std::filesystem::directory_iterator(checkpoints_folder(owner.node_data), code)) {
    const std::optional<std::int64_t> step = step_of_folder(folder.path());
    if (step && std::filesystem::exists(part_path(owner, *step), code)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::optional<std::int64_t> step_of_folder(const std::filesystem::path& folder) {
  const auto step = number_from<std::int64_t>(folder.filename().string());
  return step && *step >= 0 ? step : std::nullopt;
}

std::optional<PartName> part_name(const std::filesystem::path& file) {
  if (file.extension() != ".safetensors") return std::nullopt;
  const std::string name = file.stem().string();  // PLAN-ID_STAGE_of_STAGES
  const std::size_t id_end = name.find_first_not_of("0123456789abcdef");
  if (id_end == 0 || id_end == std::string::npos || name[id_end] != '_') return std::nullopt;
  const std::size_t of = name.find("_of_", id_end + 1);
  if (of == std::string::npos) return std::nullopt;
  const auto stage = part_number(std::string_view(name).substr(id_end + 1, of - id_end - 1));
  const auto stages = part_number(std::string_view(name).substr(of + 4));
  if (!stage || !stages || *stage >= *stages) return std::nullopt;
  return PartName{.plan_id = name.substr(0, id_end), .stage = *stage, .stages = *stages};
}

void write_part(const std::filesystem::path& path, const CheckpointOwner& owner, const CheckpointFacts& facts,
                const StateViews& training_state) {
  make_directories(path.parent_path());
  write_checked(path, training_state,
                {{"format", kFormat},
                 {"version", kVersion},
                 {"plan_id", owner.plan_id},
                 {"cluster", fmt::to_string(owner.cluster)},
                 {"stage", fmt::to_string(owner.stage)},
                 {"stages", fmt::to_string(owner.stages)},
                 {"run", to_text(facts.run)},
                 {"settings", to_json(facts.settings).dump()},
                 {"kernels", Json(facts.kernels).dump()}});
  // Other nodes remove older parts when this one is there: its name, and those of folders that are new with
  // it.
  const std::filesystem::path folder = path.parent_path();
  for (const auto& each : {folder, checkpoints_folder(owner.node_data), owner.node_data}) flush_folder(each);
}

PartReader::PartReader(const std::filesystem::path& path) : file_(path) {
  with_context(path.string(), [&] {
    check_format(file_.metadata());
    facts_ = facts_from(file_.metadata());
    check_name(path, file_.metadata(), facts_.run.step);
  });
}

}  // namespace rookery
