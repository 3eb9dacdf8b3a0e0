#include "models/graph/passes/freeze.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"
#include "models/graph/ops/batch_norm.hpp"
#include "models/graph/stage.hpp"

namespace rookery {
namespace {

// Running means and variances.
std::set<ValueId> statistics(const Graph& graph) {
  std::set<ValueId> all;
  for (const Op& op : graph.ops()) {
    if (op.type == "BatchNormalization")
      all.insert({op.inputs[kBatchNormMean], op.inputs[kBatchNormVariance]});
  }
  return all;
}

// The nearest names to a pattern, for messages.
std::string nearest(const std::string& pattern, std::vector<std::string> names) {
  constexpr std::size_t kMost = 5;  // fit a line
  std::ranges::stable_sort(names, {}, [&](const std::string& name) { return edit_distance(pattern, name); });
  names.resize(std::min(names.size(), kMost));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void choose_trained(Graph& graph, const std::vector<std::string>& frozen,
                    const std::vector<std::string>& trained, const std::set<std::string>& buffers) {
  const std::set<ValueId> of_norms = statistics(graph);
  std::vector<ValueId> all;
  std::vector<std::string> names;
  for (std::size_t id = 0; id < graph.values().size(); ++id) {
    const Value& value = graph.values()[id];
    if (value.kind != ValueKind::kParameter && !value.fixed) continue;
    if (buffers.contains(value.name) || of_norms.contains(static_cast<ValueId>(id))) continue;
    all.push_back(static_cast<ValueId>(id));
    names.push_back(value.name);
  }
  const auto choose = [&](const char* key, const std::vector<std::string>& patterns, bool is_trained) {
    for (const std::string& pattern : patterns) {
      bool matches = false;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (fnmatch(pattern.c_str(), names[i].c_str(), 0) != 0) continue;
        matches = true;
        graph.set_trained(all[i], is_trained);
      }
      if (!matches) {
        throw ConfigError(fmt::format("{}: no parameter is called '{}'; there are {}", key, pattern,
                                      nearest(pattern, names)));
      }
    }
  };
  choose("frozen", frozen, false);
  choose("trained", trained, true);
  if (graph.parameters().empty() && !all.empty()) {
    throw ConfigError("frozen: no parameter is left to train; name those that are in \"trained\"");
  }
}

void freeze_unreached(Graph& graph) {
  const std::map<ValueId, std::vector<OpId>> reached = gradient_users(graph);
  const std::vector<ValueId> all = graph.parameters();
  for (const ValueId parameter : all) {
    if (!reached.contains(parameter)) graph.set_trained(parameter, false);
  }
  if (graph.parameters().empty() && !all.empty())
    throw ConfigError("loss: it depends on no parameter that is trained; let it take another output");
}

}  // namespace rookery
