// The places of a stage's parameters and of their gradients in their arenas.
//
// Parameters: those that the stage owns, first what changes at the end of a step, then what changes in
// backward; then those that it borrows. The optimizer sees what is owned alone, in arenas of that length.
//
// Gradients: the total of every parameter that changes at the end, at the parameter's own offset; then the
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
  // Of what the stage owns, in the order of first use.
  std::vector<ParameterExtent> at_end;
  std::map<std::string, ParameterExtent> in_backward;

  std::size_t at_end_bytes = 0;
  std::size_t owned_bytes = 0;
  std::size_t parameter_bytes = 0;
  std::size_t gradient_bytes = 0;
};

}  // namespace rookery
