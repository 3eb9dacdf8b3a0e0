#include "trainer/averaging/fragments.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "models/graph/stage.hpp"

namespace rookery {

// The largest first, each to the fragment that has least; of equal ones the first.
std::map<std::string, int> fragments_of(const Graph& graph, int fragments) {
  std::vector<ValueId> values = averaged_values(graph);
  const auto bytes = [&](ValueId id) { return graph.value(id).type.bytes(); };
  std::ranges::stable_sort(values, std::ranges::greater(), bytes);
  std::vector<std::uint64_t> taken(fragments);
  std::map<std::string, int> fragment_of;
  for (const ValueId id : values) {
    const auto least = std::ranges::min_element(taken);
    *least += bytes(id);
    fragment_of[graph.value(id).name] = static_cast<int>(least - taken.begin());
  }
  return fragment_of;
}

}  // namespace rookery
