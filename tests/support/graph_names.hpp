// The ops of a graph in a form that tests compare.
#pragma once

#include <string>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

inline std::vector<std::string> op_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Op& op : graph.ops()) names.push_back(op.name);
  return names;
}

inline std::vector<std::string> op_types(const Graph& graph) {
  std::vector<std::string> types;
  for (const Op& op : graph.ops()) types.push_back(op.type);
  return types;
}

}  // namespace rookery
