// Copies a forward graph op by op, with changes. Passes from graph to graph are written with it.
#pragma once

#include <string>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

// Starts with the values that no op makes; constants follow when they are read. The graph that is copied
// outlives the copier.
class GraphCopier {
 public:
  explicit GraphCopier(const Graph& from);

  Graph& graph() { return to_; }
  // The value of the copy that stands for one that has been copied or replaced; kNoValue for kNoValue.
  ValueId at(ValueId value);
  void replace(ValueId value, ValueId by);
  // Appends `op`, which reads values of the original and makes the original's values `op.outputs`, under
  // the names that these have there.
  OpId copy(const Op& op);
  // Marks the outputs and hands the copy out.
  Graph finish();

 private:
  const Graph& from_;
  Graph to_;
  std::vector<ValueId> copies_;  // by ValueId of the original
};

}  // namespace rookery
