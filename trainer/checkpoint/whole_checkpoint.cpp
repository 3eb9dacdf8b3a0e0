#include "trainer/checkpoint/whole_checkpoint.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

// What all stages agree on (RunState).
bool is_same_place(const RunState& one, const RunState& other) {
  return one.step == other.step && one.epoch == other.epoch && one.samples == other.samples;
}

std::string step_list(const std::vector<CheckpointFiles>& all) {
  std::set<std::int64_t> steps;
  for (const CheckpointFiles& files : all) steps.insert(step_of_folder(files.folder).value());
  return steps.empty() ? "there are none"
                       : fmt::format("there are those of steps {}", fmt::join(steps, ", "));
}

}  // namespace

bool CheckpointFiles::is_complete() const {
  return std::ranges::none_of(parts, [](const auto& part) { return part.empty(); });
}

std::string CheckpointFiles::stages_text(bool there) const {
  std::vector<std::size_t> stages;
  for (std::size_t stage = 0; stage < parts.size(); ++stage)
    if (parts[stage].empty() != there) stages.push_back(stage);
  return fmt::format("stage{} {} of {}", stages.size() == 1 ? "" : "s", fmt::join(stages, ", "),
                     parts.size());
}

std::vector<CheckpointFiles> checkpoints_in(const std::filesystem::path& folder) {
  std::map<std::pair<std::string, int>, CheckpointFiles> found;
  std::error_code code;
  for (const auto& file : std::filesystem::directory_iterator(folder, code)) {
    const std::optional<PartName> name = part_name(file.path());
    if (!name) continue;
    CheckpointFiles& files = found[{name->plan_id, name->stages}];
    files.folder = folder;
    files.plan_id = name->plan_id;
    files.parts.resize(name->stages);
    files.parts[name->stage] = file.path();
    files.written = std::max(files.written, file.last_write_time(code));
  }
  std::vector<CheckpointFiles> all;
  for (const auto& [key, files] : found) all.push_back(files);
  std::ranges::sort(all, std::greater(), &CheckpointFiles::written);
  return all;
}

std::vector<CheckpointFiles> find_checkpoints(const std::filesystem::path& node_data) {
  std::vector<CheckpointFiles> all;
  std::error_code code;
  for (const auto& folder : std::filesystem::directory_iterator(checkpoints_folder(node_data), code)) {
    if (!step_of_folder(folder.path())) continue;
    std::ranges::move(checkpoints_in(folder.path()), std::back_inserter(all));
  }
  std::map<std::string, std::filesystem::file_time_type> last;  // written, by plan
  for (const CheckpointFiles& files : all) {
    const auto known = last.emplace(files.plan_id, files.written).first;
    known->second = std::max(known->second, files.written);
  }
  std::ranges::stable_sort(all, std::greater(), [&](const CheckpointFiles& files) {
    return std::tuple(last.at(files.plan_id), files.plan_id, step_of_folder(files.folder));
  });
  return all;
}

std::vector<CheckpointFiles> checkpoints_named(const std::filesystem::path& node_data,
                                               const std::string& name) {
  std::vector<CheckpointFiles> all = find_checkpoints(node_data);
  if (all.empty() && name.empty())
    throw ConfigError(fmt::format("{}: there is no checkpoint", checkpoints_folder(node_data).string()));
  if (name.empty()) return all;
  std::vector<CheckpointFiles> found;
  std::ranges::copy_if(all, std::back_inserter(found), [&](const CheckpointFiles& files) {
    return fmt::to_string(step_of_folder(files.folder).value()) == name;
  });
  if (found.empty()) found = checkpoints_in(name);
  if (!found.empty()) return found;
  throw ConfigError(
      fmt::format("'{}' is neither the step of a checkpoint in {} nor a folder with parts of one: {}", name,
                  checkpoints_folder(node_data).string(), step_list(all)));
}

WholeCheckpoint::WholeCheckpoint(const CheckpointFiles& files) : files_(files) {
  if (!files.is_complete()) {
    throw DataError(fmt::format("the checkpoint {} of plan {} has no part of {}", files.folder.string(),
                                files.plan_id, files.stages_text(false)));
  }
  for (const std::filesystem::path& path : files.parts) {
    PartReader& part = parts_.emplace_back(path);
    if (!is_same_place(part.facts().run, parts_.front().facts().run)) {
      throw DataError(fmt::format("{}: it is of step {}, and {} of step {}", path.string(),
                                  part.facts().run.step, files.parts.front().filename().string(),
                                  parts_.front().facts().run.step));
    }
    for (const auto& [name, type] : part.tensors().types()) stage_with_.emplace(name, parts_.size() - 1);
    kernels_.insert(part.facts().kernels.begin(), part.facts().kernels.end());
  }
}

std::map<std::string, TensorType> WholeCheckpoint::types() const {
  std::map<std::string, TensorType> types;
  for (const PartReader& part : parts_)
    types.insert(part.tensors().types().begin(), part.tensors().types().end());
  return types;
}

Tensor WholeCheckpoint::read(const std::string& name) {
  return parts_[stage_with_.at(name)].tensors().read(name);
}

void WholeCheckpoint::check_all() {
  for (PartReader& part : parts_) part.tensors().check_all();
}

WholeCheckpoint open_checkpoint(const std::filesystem::path& node_data, const std::string& step_or_folder) {
  std::vector<std::string> problems;
  for (const CheckpointFiles& files : checkpoints_named(node_data, step_or_folder)) {
    if (!problems.empty()) spdlog::warn("{}: the one before is taken", problems.back());
    try {
      WholeCheckpoint whole(files);
      whole.check_all();
      return whole;
    } catch (const DataError& error) {
      problems.emplace_back(error.what());
    }
  }
  throw DataError(fmt::format("{}", fmt::join(problems, "; ")));
}

}  // namespace rookery
