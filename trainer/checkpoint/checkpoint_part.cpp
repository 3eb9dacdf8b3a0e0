#include "trainer/checkpoint/checkpoint_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <system_error>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/files/json_file.hpp"

namespace rookery {
namespace {

constexpr const char* kFormat = "rookery.checkpoint";
constexpr const char* kVersion = "1";
constexpr std::int64_t kMostStages = 1'000'000;

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
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

// That it is the part that its name says, of the step that its folder says.
void check_name(const std::filesystem::path& path, const Metadata& metadata, std::int64_t step) {
  const std::string name = fmt::format("{}_{}_of_{}.safetensors", entry(metadata, "plan_id"),
                                       entry(metadata, "stage"), entry(metadata, "stages"));
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
         fmt::format("{}_{}_of_{}.safetensors", owner.plan_id, owner.stage, owner.stages);
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
  return whole_number(folder.filename().string());
}

std::optional<PartName> part_name(const std::filesystem::path& file) {
  static const std::regex pattern("([0-9a-f]+)_([0-9]{1,6})_of_([0-9]{1,6})\\.safetensors");
  const std::string name = file.filename().string();
  std::smatch match;
  if (!std::regex_match(name, match, pattern)) return std::nullopt;
  const PartName part{.plan_id = match[1], .stage = std::stoi(match[2]), .stages = std::stoi(match[3])};
  return part.stage < part.stages ? std::optional(part) : std::nullopt;
}

void write_part(const std::filesystem::path& path, const CheckpointOwner& owner, const CheckpointFacts& facts,
                const StateViews& training_state) {
  make_directories(path.parent_path());
  write_checked(path, training_state,
                {{"format", kFormat},
                 {"version", kVersion},
                 {"plan_id", owner.plan_id},
                 {"stage", fmt::to_string(owner.stage)},
                 {"stages", fmt::to_string(owner.stages)},
                 {"run", to_text(facts.run)},
                 {"settings", to_json(facts.settings).dump()},
                 {"kernels", Json(facts.kernels).dump()}});
}

PartReader::PartReader(const std::filesystem::path& path) : file_(path) {
  with_context(path.string(), [&] {
    check_format(file_.metadata());
    facts_ = facts_from(file_.metadata());
    check_name(path, file_.metadata(), facts_.run.step);
  });
}

}  // namespace rookery
