#include "trainer/checkpoint/reshard/sync.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/averager.hpp"
#include "trainer/checkpoint/reshard/state_transfer.hpp"
#include "trainer/checkpoint/reshard/told_by_all.hpp"
#include "trainer/encoding/reconstructions.hpp"

namespace rookery {
namespace {

// What clusters have in common, by name.
std::map<std::string, TensorView> common_state(Executable& executable, const FurtherState& further) {
  std::map<std::string, TensorView> state = executable.training_state();
  state.insert(further.begin(), further.end());
  std::erase_if(state, [](const auto& entry) {
    return is_residual_key(entry.first) || is_reconstruction_key(entry.first);
  });
  return state;
}

// Where the run stands, as the Leaf of each cluster knows it, that of those that begin at the first step
// being nothing.
std::vector<std::optional<RunState>> runs_of_clusters(const std::optional<RunState>& own,
                                                      const Agreement& agreement) {
  std::vector<std::optional<RunState>> runs;
  const std::string text = own ? to_text(*own) : std::string();
  for (const auto& cluster : told_by_all_as(agreement, "runs of clusters", text)) {
    const std::string& of_leaf = cluster.back();
    runs.push_back(of_leaf.empty() ? std::nullopt : std::optional(run_state_from(of_leaf)));
  }
  return runs;
}

}  // namespace

std::optional<RunState> sync_state(const std::vector<StartChoice>& choices, int cluster,
                                   std::optional<RunState> own, Executable& executable,
                                   const Agreement& agreement, const FurtherState& further) {
  const StartChoice& choice = choices.at(cluster);
  const std::map<std::string, TensorView> state = common_state(executable, further);
  std::map<std::string, std::uint64_t> left;  // bytes that are to come
  NodeState told{.from = choice.sync_from};
  for (const auto& [name, view] : state) {
    if (std::ranges::find(choices, cluster, &StartChoice::sync_from) != choices.end())
      told.add_to_has(name, view.type);
    if (!choice.sync_from || (is_optimizer_key(name) && !choice.sync_optimizer)) continue;
    told.add_to_wants(name, view.type);
    left[name] = view.type.bytes();
  }
  const std::vector<std::optional<RunState>> runs = runs_of_clusters(own, agreement);
  std::uint64_t bytes = 0;
  transfer_state(
      "state", told, cluster, agreement,
      {.read = [&](const StateRange& range, auto into) { read_range(state.at(range.name), range, into); },
       .write =
           [&](const StateRange& range, auto from) {
             write_range(state.at(range.name), range, from);
             left.at(range.name) -= range.bytes;
             bytes += range.bytes;
           }});
  if (!choice.sync_from) return own;
  for (const auto& [name, missing] : left) {
    if (missing > 0) {
      throw DataError(
          fmt::format("cluster {} has no {}, which cluster {} is to begin with: these are not of one model",
                      *choice.sync_from, name, cluster));
    }
  }
  std::optional<RunState> run = runs.at(*choice.sync_from);
  const bool sees_samples = executable.stage().is_root() || executable.stage().is_leaf();
  if (run && !sees_samples) run->sample_digest = 0;
  if (run && !choice.sync_optimizer) run->optimizer_from = run->step;
  spdlog::info("begins after step {} with the state of cluster {}: {} bytes have come", run ? run->step : 0,
               *choice.sync_from, bytes);
  return run;
}

}  // namespace rookery
