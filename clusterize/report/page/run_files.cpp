#include "clusterize/report/page/run_files.hpp"

#include <cmath>
#include <fstream>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/progress/tensorboard/run_folder.hpp"

namespace rookery {
namespace {

constexpr std::uint64_t kMostPictureBytes = 32U << 20;
constexpr std::size_t kMostLineBytes = 1U << 16;
constexpr std::size_t kMostCurves = 256;

// A line that is cut, as the last one of a run that goes on may be, is none.
std::map<std::string, Curve> read_curves(const std::filesystem::path& path) {
  std::map<std::string, Curve> curves;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.size() > kMostLineBytes) continue;
    const Json object = Json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("step") || !object.at("step").is_number()) continue;
    const auto step = object.at("step").get<double>();
    for (const auto& [name, value] : object.items()) {
      if (name == "step" || !value.is_number() || !std::isfinite(value.get<double>())) continue;
      if (!curves.contains(name) && curves.size() == kMostCurves) continue;
      Curve& curve = curves[name];
      curve.name = name;
      if (curve.points.empty() || curve.points.back().first < step)
        curve.points.emplace_back(step, value.get<double>());
    }
  }
  return curves;
}

std::string picture_in(const std::filesystem::path& path, RunFiles& files) {
  if (std::filesystem::exists(path)) return read_file(path, kMostPictureBytes);
  files.missing.push_back(fmt::format("{}, which clusterize draws", path.string()));
  return {};
}

}  // namespace

RunFiles read_run(const std::filesystem::path& node_data, const std::filesystem::path& output) {
  const std::filesystem::path plan = node_data / "plan.json";
  if (!std::filesystem::exists(plan))
    throw DataError(fmt::format(
        "{}: there is no plan: call clusterize, or give its folder with --node-data DIR", plan.string()));
  RunFiles files{.plan = read_json(plan), .settings = {}, .plan_picture = {}, .step_picture = {}};
  try {
    const Json& stages = files.plan.at("clusters").at(0).at("stages");
    const auto node = stages.at(0).at("node").get<std::string>();
    files.settings = read_json(node_data / "nodes" / (node + ".json")).at("settings");
    const std::filesystem::path folder = run_folder_of(output, files.plan.at("model").get<std::string>());
    files.curves = read_curves(folder / "metrics.jsonl");
    if (files.curves.empty())
      files.missing.push_back(
          fmt::format("{}, which the Leaf of cluster 0 writes", (folder / "metrics.jsonl").string()));
    for (const Json& cluster : files.plan.at("clusters")) {
      for (const Json& stage : cluster.at("stages")) {
        const auto name = stage.at("node").get<std::string>();
        const std::filesystem::path end = folder / (name + ".json");
        if (!std::filesystem::exists(end)) {
          files.missing.push_back(
              fmt::format("{}, which the provider of {} writes when it ends", end.string(), name));
          continue;
        }
        Json read = read_json(end);
        if (read.at("plan_id") == files.plan.at("plan_id")) files.ends.emplace(name, std::move(read));
      }
    }
  } catch (const Json::exception& error) {
    throw DataError(
        fmt::format("{}: not a plan, or not the one of its nodes: {}", plan.string(), error.what()));
  }
  files.plan_picture = picture_in(node_data / "plan.svg", files);
  files.step_picture = picture_in(node_data / "step.svg", files);
  return files;
}

}  // namespace rookery
