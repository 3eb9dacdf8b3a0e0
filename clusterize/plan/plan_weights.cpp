#include "clusterize/plan/plan_weights.hpp"

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/safetensors/safetensors.hpp"

namespace rookery {
namespace {

constexpr std::string_view kName = "submod";
constexpr std::string_view kEnding = ".safetensors";

std::string name_of_file(std::size_t number) {
  if (number == 0) return fmt::format("{}{}", kName, kEnding);
  return fmt::format("{}.{}{}", kName, number, kEnding);
}

template <typename Use>
void for_each_tensor(const Graph& graph, const Use& use) {
  for (const auto& ids : {graph.parameters(), graph.buffers()}) {
    for (const ValueId id : ids) use(graph.value(id).name);
  }
}

}  // namespace

PlanWeights::PlanWeights(const std::vector<std::vector<Stage>>& stages, const StateDict& state,
                         std::string plan_id)
    : state_(state), metadata_{{kPlanId, std::move(plan_id)}} {
  for (std::size_t cluster = 0; cluster < stages.size(); ++cluster) {
    for (const Stage& stage : stages[cluster]) {
      for_each_tensor(stage.graph, [&](const std::string& name) {
        places_[name].emplace_back(static_cast<int>(cluster), stage.index);
      });
    }
  }
}

WeightsFiles PlanWeights::put(const std::filesystem::path& folder, const Graph& stage) {
  WeightsFiles files;
  for (const std::vector<std::string>& tensors : files_of(stage)) {
    const std::string name = name_of_file(files.size());
    const std::filesystem::path path = folder / name;
    const auto [first, is_new] = written_.try_emplace(places_.at(tensors.front()), path);
    if (is_new) {
      StateViews views;
      for (const std::string& tensor : tensors) views.emplace(tensor, state_.at(tensor).view());
      write_safetensors(path, views, metadata_);
    } else {
      link_file(first->second, path);
    }
    files[name] = SafetensorsReader(path).extents();
  }
  return files;
}

std::vector<std::vector<std::string>> PlanWeights::files_of(const Graph& stage) const {
  std::vector<std::vector<std::string>> files;
  std::map<Places, std::size_t> numbers;
  for_each_tensor(stage, [&](const std::string& name) {
    if (!state_.contains(name)) throw DataError(fmt::format("there are no weights for '{}'", name));
    const auto [found, is_new] = numbers.try_emplace(places_.at(name), files.size());
    if (is_new) files.emplace_back();
    files[found->second].push_back(name);
  });
  return files;
}

bool is_weights_file(const std::string& name) {
  if (!name.starts_with(kName) || !name.ends_with(kEnding)) return false;
  if (name.size() == kName.size() + kEnding.size()) return true;
  const std::string_view number =
      std::string_view(name).substr(kName.size(), name.size() - kName.size() - kEnding.size());
  return number.size() > 1 && number.front() == '.' &&
         number.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

}  // namespace rookery
