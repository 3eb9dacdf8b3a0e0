#include "clusterize/planner/write_plan.hpp"

#include <map>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/plan/plan_lock.hpp"
#include "clusterize/plan/stage_folder.hpp"
#include "clusterize/planner/make_metadata.hpp"
#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/io/safetensors/safetensors.hpp"

namespace rookery {
namespace {

namespace fs = std::filesystem;

// The names are fixed, so that the next run finds what a killed one has left behind.
constexpr const char* kNewPlan = ".new_plan";
constexpr const char* kOldPlan = ".old_plan";
constexpr const char* kKept = "kept";

void remove_folder(const fs::path& folder) {
  std::error_code code;
  fs::remove_all(folder, code);
  if (code) throw DataError(fmt::format("{}: cannot remove: {}", folder.string(), code.message()));
}

void move_entry(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::rename(from, to, code);
  if (code)
    throw DataError(fmt::format("{}: cannot move to {}: {}", from.string(), to.string(), code.message()));
}

bool belongs_to_plan(const std::string& name) {
  const std::string_view cluster = "cluster_";
  return name == "nodes" || name == "plan.json" ||
         (name.starts_with(cluster) && name.size() > cluster.size() &&
          name.find_first_not_of("0123456789", cluster.size()) == std::string::npos);
}

// What may be the name of a folder.
bool is_plan_id(const std::string& text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::vector<fs::path> plan_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (belongs_to_plan(entry.path().filename().string())) entries.push_back(entry.path().filename());
  }
  return entries;
}

// Stages of clusters that are cut alike are the same files.
void write_into(const fs::path& folder, const TrainingTask& task, const Planned& planned,
                const StateDict& state, const std::string& token) {
  make_directories(folder);
  PlanWeights weights(planned.stages, state, planned.plan.plan_id);
  std::map<std::pair<std::vector<int>, int>, fs::path> written;  // by cut and stage
  for (std::size_t cluster = 0; cluster < planned.stages.size(); ++cluster) {
    for (const Stage& stage : planned.stages[cluster]) {
      NodeMetadata metadata = make_metadata(task, planned, static_cast<int>(cluster), stage.index);
      metadata.token = token;
      write_metadata(folder, metadata);
      const fs::path place = stage_folder(folder, metadata);
      const auto [same, is_new] = written.try_emplace({planned.cuts[cluster].begins, stage.index}, place);
      if (!is_new) {
        make_directories(place);
        for (const fs::directory_entry& entry : fs::directory_iterator(same->second))
          link_file(entry.path(), place / entry.path().filename());
        continue;
      }
      write_stage(place, stage, weights);
      // What its provider would refuse is told now.
      with_context(fmt::format("the stage of {}", metadata.node), [&] { read_stage(place, metadata); });
    }
  }
  write_json(folder / "plan.json", to_json(planned.plan));
}

void move_entries(const fs::path& from, const fs::path& to) {
  for (const fs::path& name : plan_entries(from)) move_entry(from / name, to / name);
}

// Files in the stages of a plan that clusterize did not write: trained weights, and whatever a user put
// there. Below `folder`.
std::vector<fs::path> foreign_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::path& name : plan_entries(folder)) {
    if (!fs::is_directory(folder / name) || name == "nodes") continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder / name)) {
      if (!entry.is_directory() && !is_stage_file(entry.path().filename().string()))
        files.push_back(entry.path().lexically_relative(folder));
    }
  }
  return files;
}

// Of the trained weights, or else of the nodes, in a folder that was a plan.
std::string plan_id_in(const fs::path& folder, const std::vector<fs::path>& files) {
  for (const fs::path& file : files) {
    try {
      if (file.extension() != ".safetensors") continue;
      const Metadata metadata = safetensors_metadata(folder / file);
      if (const auto found = metadata.find("plan_id"); found != metadata.end() && is_plan_id(found->second))
        return found->second;
    } catch (const Error&) {  // nobody's weights
    }
  }
  try {
    return read_all_metadata(folder).front().plan_id;
  } catch (const Error&) {
    return "unknown";
  }
}

// Removes `old`, or keeps it where it holds what clusterize did not write; the folder that it is in then.
std::optional<fs::path> put_aside(const fs::path& node_data, const fs::path& old) {
  const std::vector<fs::path> files = foreign_files(old);
  if (files.empty()) {
    remove_folder(old);
    return std::nullopt;
  }
  make_directories(node_data / kKept);
  const fs::path first = node_data / kKept / plan_id_in(old, files);
  fs::path place = first;
  for (int number = 2; fs::exists(fs::symlink_status(place)); ++number)
    place = first.string() + fmt::format(".{}", number);
  move_entry(old, place);
  return place;
}

// What a run that was killed has left: until the new plan was whole in its place, the older one goes back.
std::optional<fs::path> recover(const fs::path& node_data) {
  const fs::path fresh = node_data / kNewPlan;
  const fs::path old = node_data / kOldPlan;
  std::optional<fs::path> kept;
  if (fs::exists(old) && fs::exists(fresh) && !plan_entries(fresh).empty()) {
    for (const fs::path& name : plan_entries(old)) {
      remove_folder(node_data / name);
      move_entry(old / name, node_data / name);
    }
  }
  if (fs::exists(old)) kept = put_aside(node_data, old);
  remove_folder(fresh);
  return kept;
}

// A plan made again, with other predictions for instance, keeps what was trained for it.
void hand_on_trained(const fs::path& old, const fs::path& node_data, const std::string& plan_id) {
  for (const fs::path& file : foreign_files(old)) {
    if (file.extension() != ".safetensors" || plan_id_in(old, {file}) != plan_id) continue;
    if (fs::is_directory((node_data / file).parent_path()) && !fs::exists(node_data / file))
      move_entry(old / file, node_data / file);
  }
}

}  // namespace

std::string draw_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", device());
  return token;
}

std::vector<fs::path> write_plan(const fs::path& node_data, const TrainingTask& task, const Planned& planned,
                                 const StateDict& state, const std::string& token) {
  make_directories(node_data);
  const FileLock lock = lock_for_replacing(node_data);
  const fs::path fresh = node_data / kNewPlan;
  const fs::path old = node_data / kOldPlan;
  std::vector<fs::path> kept;
  const auto note = [&](const std::optional<fs::path>& place) {
    if (place) kept.push_back(*place);
  };
  note(recover(node_data));
  try {
    write_into(fresh, task, planned, state, token);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    throw;
  }
  make_directories(old);
  bool is_clear = false;
  try {
    move_entries(node_data, old);
    is_clear = true;
    move_entries(fresh, node_data);
  } catch (const DataError&) {
    if (is_clear) {
      for (const fs::path& name : plan_entries(node_data)) remove_folder(node_data / name);
    }
    move_entries(old, node_data);
    throw;
  }
  hand_on_trained(old, node_data, planned.plan.plan_id);
  note(put_aside(node_data, old));
  remove_folder(fresh);
  return kept;
}

bool holds_plan(const fs::path& node_data, const ClusterPlan& plan) {
  try {
    for (const PlannedCluster& cluster : plan.clusters) {
      for (const PlannedStage& stage : cluster.stages) {
        const NodeMetadata metadata = read_metadata(node_data, stage.node);
        if (metadata.plan_id != plan.plan_id || !holds_stage(stage_folder(node_data, metadata), metadata))
          return false;
      }
    }
    return read_json(node_data / "plan.json") == Json::parse(to_json(plan).dump());
  } catch (const Error&) {  // not there, or nobody's plan
    return false;
  }
}

}  // namespace rookery
