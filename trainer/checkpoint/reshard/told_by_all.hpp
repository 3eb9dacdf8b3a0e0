// What every node of a run says, on every node.
#pragma once

#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "trainer/agreement.hpp"

namespace rookery {

// By cluster and stage.
template <typename T>
using OfNodes = std::vector<std::vector<T>>;

// Called by all nodes of all clusters at once; a name is used once in a run. TransportError.
OfNodes<nlohmann::json> told_by_all(const Agreement& agreement, const std::string& name,
                                    const nlohmann::json& own);

// The same as what it stands for. TransportError naming the node where it stands for nothing.
template <typename T>
OfNodes<T> told_by_all_as(const Agreement& agreement, const std::string& name, const T& own) {
  const OfNodes<nlohmann::json> told = told_by_all(agreement, name, own);
  OfNodes<T> all(told.size());
  for (std::size_t cluster = 0; cluster < told.size(); ++cluster) {
    for (std::size_t stage = 0; stage < told[cluster].size(); ++stage) {
      try {
        all[cluster].push_back(told[cluster][stage].get<T>());
      } catch (const nlohmann::json::exception& error) {
        throw TransportError(fmt::format("stage {} of cluster {} tells {} that cannot be read: {}", stage,
                                         cluster, name, error.what()));
      }
    }
  }
  return all;
}

}  // namespace rookery
