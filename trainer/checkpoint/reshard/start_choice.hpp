// How a node is told to begin its run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/reshard/told_by_all.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// All nodes of a cluster are told the same.
struct StartChoice {
  bool resume = false;  // from the newest checkpoint of the plan, if there is one
  // With the parameters and buffers of this cluster, and its step, instead of any of its own; and whether
  // with its optimizer's state, which begins anew otherwise.
  std::optional<int> sync_from;
  bool sync_optimizer = false;
  bool operator==(const StartChoice&) const = default;
};
void to_json(nlohmann::json& json, const StartChoice& choice);
void from_json(const nlohmann::json& json, StartChoice& choice);

// ConfigError where a node of this cluster cannot begin so: there is no such other cluster; or clusters would
// train different models from then on, because gradients are summed over them and the optimizer, which has a
// state, is to begin anew in one.
void check_start(const StartChoice& choice, int cluster, int clusters, const TrainingSettings& settings);

// By cluster what all of its nodes were told. ConfigError, the same on all nodes, where these differ, where
// one cluster goes on and another does not, or one is to give a state that it takes itself.
std::vector<StartChoice> choices_of_clusters(const OfNodes<StartChoice>& told);

}  // namespace rookery
