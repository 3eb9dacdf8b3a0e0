#include "trainer/checkpoint/checkpoint_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/files/json_file.hpp"

namespace rookery {
namespace {

constexpr const char* kFormat = "rookery.checkpoint";
constexpr const char* kVersion = "1";

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

int stage_number(const Metadata& metadata, const char* key) {
  const std::optional<std::int64_t> number = whole_number(entry(metadata, key));
  if (!number || *number > 1'000'000)
    throw DataError(fmt::format("its metadata has the {} '{}'", key, entry(metadata, key)));
  return static_cast<int>(*number);
}

void check_format(const Metadata& metadata) {
  if (entry(metadata, "format") != kFormat)
    throw DataError(fmt::format("this is no part of a checkpoint, but '{}'", entry(metadata, "format")));
  if (entry(metadata, "version") != kVersion) {
    throw DataError(fmt::format("format version {}, this program knows {}: use a newer Rookery",
                                entry(metadata, "version"), kVersion));
  }
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
    const std::optional<std::int64_t> step = whole_number(folder.path().filename().string());
    if (step && std::filesystem::exists(part_path(owner, *step), code)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
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
    plan_id_ = entry(file_.metadata(), "plan_id");
    stage_ = stage_number(file_.metadata(), "stage");
    stages_ = stage_number(file_.metadata(), "stages");
    facts_ = facts_from(file_.metadata());
  });
}

PartReader::PartReader(const CheckpointOwner& owner, std::int64_t step) : PartReader(part_path(owner, step)) {
  if (plan_id_ == owner.plan_id && stage_ == owner.stage && stages_ == owner.stages &&
      facts_.run.step == step)
    return;
  throw DataError(fmt::format(
      "{}: it is of step {}, plan {}, stage {} of {}, and not what its name says: was it renamed?",
      part_path(owner, step).string(), facts_.run.step, plan_id_, stage_, stages_));
}

}  // namespace rookery
