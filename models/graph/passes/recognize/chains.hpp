// What the finders of chains of ops have in common: they go from a chain's last op to what it is made of.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

// The op that stands for a chain, and the ops that go.
struct FoundChain {
  Op op;
  std::set<OpId> inside;
};

class ChainFinder {
 protected:
  explicit ChainFinder(const Graph& graph);

  const Graph& graph() const { return graph_; }
  // How often ops read the value; being an output of the graph counts as once more.
  int readers(ValueId id) const { return readers_[id]; }
  // nullptr where no op makes it, or none of this type.
  const Op* producer(ValueId id) const;
  const Op* producer(ValueId id, const std::string& type) const;
  // The op of this type that makes the value, and no other, for so many readers; it is put `inside` the
  // chain.
  const Op* step(ValueId value, const std::string& type, std::set<OpId>& inside, int readers = 1) const;
  // The value of a constant f32 of one element.
  std::optional<float> number(ValueId id) const;

 private:
  const Graph& graph_;        // outlives the finder: both live in one pass
  std::vector<int> readers_;  // by ValueId
};

// The graph with chains in the places of the ops that they are found by.
Graph with_chains(const Graph& forward, const std::map<OpId, FoundChain>& by_last);

}  // namespace rookery
