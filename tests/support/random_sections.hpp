// Random cuts and random sections, for the properties of recomputation (RapidCheck).
#pragma once

#include <rapidcheck.h>

#include <vector>

#include "models/graph/passes/memory/recompute.hpp"
#include "models/graph/stage.hpp"
#include "tests/support/random_graph.hpp"

namespace rookery::test {

// The stages of a random model, cut at random places.
inline std::vector<Stage> random_stages() {
  const Graph graph = RandomGraph::make(*rc::gen::arbitrary<unsigned>(), *rc::gen::inRange(1, 25));
  std::vector<OpId> begins{0};
  for (const OpId position : cut_positions(graph)) {
    if (*rc::gen::inRange(0, 8) == 0) begins.push_back(position);
  }
  return cut(graph, begins);
}

inline Sections random_sections(const Stage& stage) {
  Sections sections{.begins = {0}, .keeps_last = *rc::gen::arbitrary<bool>()};
  for (int op = 1; op < std::ssize(stage.graph.ops()); ++op) {
    if (*rc::gen::inRange(0, 4) == 0) sections.begins.push_back(op);
  }
  return sections;
}

}  // namespace rookery::test
