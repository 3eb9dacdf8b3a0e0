#include "trainer/checkpoint/reshard/start_choice.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/runtime/optimizer.hpp"

namespace rookery {
namespace {

std::string options_of(const StartChoice& choice) {
  if (choice.sync_from)
    return fmt::format("--sync-from {}{}", *choice.sync_from,
                       choice.sync_optimizer ? " --sync-optimizer" : "");
  return choice.resume ? "--resume" : "neither --resume nor --sync-from";
}

// Where the cluster of this number is to begin with the state of another.
void check_source(const std::vector<StartChoice>& choices, std::size_t cluster) {
  const int from = *choices[cluster].sync_from;
  if (from < 0 || from >= std::ssize(choices))
    throw ConfigError(fmt::format("cluster {} was started with {}: the plan has clusters 0 to {}", cluster,
                                  options_of(choices[cluster]), choices.size() - 1));
  const StartChoice& source = choices[from];
  if (!source.sync_from) return;
  throw ConfigError(fmt::format(
      "cluster {} is to begin with the state of cluster {}, which was itself started with {}: name a cluster "
      "that begins with its own",
      cluster, from, options_of(source)));
}

}  // namespace

void to_json(nlohmann::json& json, const StartChoice& choice) {
  json = {{"resume", choice.resume}, {"sync_optimizer", choice.sync_optimizer}};
  if (choice.sync_from) json["sync_from"] = *choice.sync_from;
}

void from_json(const nlohmann::json& json, StartChoice& choice) {
  choice.resume = json.at("resume").get<bool>();
  choice.sync_optimizer = json.at("sync_optimizer").get<bool>();
  if (json.contains("sync_from")) choice.sync_from = integer_from<int>(json["sync_from"]);
}

void check_start(const StartChoice& choice, int cluster, int clusters, const TrainingSettings& settings) {
  if (!choice.sync_from) return;
  const int from = *choice.sync_from;
  if (clusters == 1)
    throw ConfigError(fmt::format(
        "--sync-from {}: the plan has one cluster, which has no other to take a state from", from));
  if (from < 0 || from >= clusters)
    throw ConfigError(fmt::format("--sync-from {}: the plan has clusters 0 to {}", from, clusters - 1));
  if (from == cluster) {
    throw ConfigError(fmt::format(
        "--sync-from {}: that is the cluster of this node itself; it is for nodes of other clusters", from));
  }
  if (choice.resume)
    throw ConfigError(fmt::format(
        "--sync-from {}: the state of another cluster, or with --resume its own: not both", from));
  const bool has_state = !make_optimizer(settings.optimizer)->state_names().empty();
  if (settings.averaging.mode == "gradients" && has_state && !choice.sync_optimizer) {
    throw ConfigError(
        fmt::format("--sync-from {}: clusters that average gradients stay one model only if their optimizers "
                    "({}) have the same "
                    "state: give --sync-optimizer, too",
                    from, settings.optimizer.name));
  }
}

std::vector<StartChoice> choices_of_clusters(const OfNodes<StartChoice>& told) {
  std::vector<StartChoice> choices;
  for (const std::vector<StartChoice>& stages : told) {
    const auto other = std::ranges::find_if(stages, [&](const auto& each) { return each != stages.front(); });
    if (other != stages.end()) {
      throw ConfigError(fmt::format(
          "cluster {}: its stage 0 was started with {}, its stage {} with {}: start all providers of a "
          "cluster alike",
          choices.size(), options_of(stages.front()), other - stages.begin(), options_of(*other)));
    }
    choices.push_back(stages.front());
  }
  const auto first = std::ranges::find(choices, std::optional<int>(), &StartChoice::sync_from);
  for (std::size_t cluster = 0; cluster < choices.size(); ++cluster) {
    const StartChoice& choice = choices[cluster];
    if (choice.sync_from) check_source(choices, cluster);
    if (!choice.sync_from && choice.resume != first->resume) {
      throw ConfigError(
          fmt::format("cluster {} was started with {}, cluster {} with {}: start both alike, or one with "
                      "--sync-from the other",
                      first - choices.begin(), options_of(*first), cluster, options_of(choice)));
    }
  }
  return choices;
}

}  // namespace rookery
