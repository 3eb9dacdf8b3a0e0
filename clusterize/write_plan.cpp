#include "clusterize/write_plan.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <random>
#include <system_error>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files.hpp"

namespace rookery {
namespace {

namespace fs = std::filesystem;

// The names are fixed, so that what a killed run left behind goes away with the next one.
constexpr const char* kNewPlan = ".new_plan";
constexpr const char* kOldPlan = ".old_plan";

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

std::vector<fs::path> plan_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (belongs_to_plan(entry.path().filename().string())) entries.push_back(entry.path().filename());
  }
  return entries;
}

void write_into(const fs::path& folder, const TrainingTask& task, const Planned& planned,
                const StateDict& state, const std::string& token) {
  make_directories(folder);
  for (std::size_t cluster = 0; cluster < planned.stages.size(); ++cluster) {
    for (const Stage& stage : planned.stages[cluster]) {
      NodeMetadata metadata = make_metadata(task, planned, static_cast<int>(cluster), stage.index);
      metadata.token = token;
      write_metadata(folder, metadata);
      write_stage(stage_folder(folder, metadata), stage, state, planned.plan.plan_id);
    }
  }
  write_json(folder / "plan.json", to_json(planned.plan));
}

void move_entries(const fs::path& from, const fs::path& to) {
  for (const fs::path& name : plan_entries(from)) move_entry(from / name, to / name);
}

}  // namespace

std::string draw_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", device());
  return token;
}

void write_plan(const fs::path& node_data, const TrainingTask& task, const Planned& planned,
                const StateDict& state, const std::string& token) {
  const fs::path fresh = node_data / kNewPlan;
  const fs::path old = node_data / kOldPlan;
  remove_folder(fresh);
  remove_folder(old);
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
  remove_folder(fresh);
  remove_folder(old);
}

bool holds_plan(const fs::path& node_data, const ClusterPlan& plan) {
  std::error_code code;
  for (const PlannedCluster& cluster : plan.clusters) {
    for (const PlannedStage& stage : cluster.stages) {
      if (!fs::exists(metadata_path(node_data, stage.node), code)) return false;
    }
  }
  try {
    return read_json(node_data / "plan.json") == Json::parse(to_json(plan).dump());
  } catch (const Error&) {  // not there, or nobody's plan
    return false;
  }
}

}  // namespace rookery
