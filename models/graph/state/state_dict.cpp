#include "models/graph/state/state_dict.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"
#include "models/tensor/same.hpp"

namespace rookery {
namespace {

// What a state lacks and has too much of, beside a graph.
struct Difference {
  std::vector<std::string> missing, left_over, other_types;
};

Difference compare(const Graph& graph, const StateDict& state) {
  Difference difference;
  std::set<std::string> expected;
  for (const auto& ids : {graph.parameters(), graph.buffers()}) {
    for (const ValueId id : ids) {
      const Value& value = graph.value(id);
      expected.insert(value.name);
      const auto found = state.find(value.name);
      if (found == state.end()) {
        difference.missing.push_back(value.name);
      } else if (found->second.type() != value.type) {
        difference.other_types.push_back(fmt::format("'{}' is {}, the model has {}", value.name,
                                                     found->second.type().to_string(),
                                                     value.type.to_string()));
      }
    }
  }
  for (const auto& [name, tensor] : state) {
    if (!expected.contains(name)) difference.left_over.push_back(name);
  }
  return difference;
}

// What stands before every name of the state and before none of the model's, such as the "module." of
// DataParallel; empty when that is not all that is wrong.
std::string common_prefix(const Difference& difference) {
  if (difference.missing.empty() || difference.missing.size() != difference.left_over.size()) return {};
  const std::string& first = difference.missing.front();
  const auto longer = std::ranges::find_if(
      difference.left_over, [&](const std::string& name) { return name.ends_with("." + first); });
  if (longer == difference.left_over.end()) return {};
  const std::string prefix = longer->substr(0, longer->size() - first.size());
  const auto has_it = [&](const std::string& name) {
    return std::ranges::binary_search(difference.left_over, prefix + name);
  };
  return std::ranges::all_of(difference.missing, has_it) ? prefix : std::string();
}

bool is_constant(const Tensor& tensor) {
  const std::span<const std::byte> bytes = tensor.view().bytes();
  const std::size_t size = bytes_of(tensor.type().dtype);
  return std::ranges::equal(bytes.subspan(size), bytes.first(bytes.size() - size));
}

}  // namespace

StateViews views_of(const StateDict& state) {
  StateViews views;
  for (const auto& [name, tensor] : state) views.emplace(name, tensor.view());
  return views;
}

std::map<std::string, std::string> second_names(const Graph& graph, const StateDict& state) {
  std::map<std::string, std::string> names;
  for (const std::string& extra : compare(graph, state).left_over) {
    const Tensor& tensor = state.at(extra);
    if (tensor.type().shape.elements() < 2 || is_constant(tensor)) continue;
    for (const ValueId id : graph.parameters()) {
      const auto own = state.find(graph.value(id).name);
      if (own == state.end() || !is_same(own->second, tensor)) continue;
      names.emplace(extra, own->first);
      break;
    }
  }
  return names;
}

void check_state(const Graph& graph, const StateDict& state) {
  Difference difference = compare(graph, state);
  if (const std::string prefix = common_prefix(difference); !prefix.empty()) {
    throw DataError(
        fmt::format("its names are the model's with '{}' before each (DataParallel and compiled modules have "
                    "that): save the module inside, for DataParallel model.module.state_dict()",
                    prefix));
  }
  std::vector<std::string> problems = std::move(difference.other_types);
  for (const std::string& name : difference.missing) {
    const std::string meant = nearest_name(name, difference.left_over);
    problems.push_back(fmt::format("'{}' is missing{}", name,
                                   meant.empty() ? "" : fmt::format(" (is it what '{}' is?)", meant)));
  }
  for (const std::string& name : difference.left_over)
    problems.push_back(fmt::format("'{}' is not in the model", name));
  if (!problems.empty()) throw DataError(fmt::format("{}", fmt::join(problems, "; ")));
}

}  // namespace rookery
