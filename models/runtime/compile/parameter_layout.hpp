// The places of a stage's parameters and of their gradients in their arenas.
//
// Parameters: those that the stage owns, then those that it borrows. The optimizer sees the first part
// alone, in arenas of that length.
//
// Gradients: the total of every parameter that the stage owns, at the parameter's own offset; then the
// totals of those that it borrows; then what is added to these totals when a step ends. The terms of a
// total are the partial sum of later stages, where there is one, and the gradients of the ops that use
// the parameter, from the last to the first; the first term has the total's place.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/graph/stage.hpp"
#include "models/runtime/optimizer.hpp"

namespace rookery {

struct ParameterLayout {
  // `training`: the stage's, differentiated; nullptr where it is not trained.
  ParameterLayout(const Stage& stage, const TrainingGraph* training);

  // Offsets in bytes, by name. Every term is padded to kAlignment.
  std::map<std::string, std::size_t> parameters;
  std::map<std::string, std::vector<std::size_t>> gradient_terms;
  std::vector<ParameterExtent> owned;  // in the order of first use

  std::size_t owned_bytes = 0;
  std::size_t parameter_bytes = 0;
  std::size_t gradient_bytes = 0;
};

}  // namespace rookery
