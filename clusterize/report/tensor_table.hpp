// The table says what of a model is trained: parameters, buffers and constants by name.
#pragma once

#include <string>

#include "clusterize/costs/training_task.hpp"
#include "models/base/files/json_file.hpp"

namespace rookery {

// One row a tensor; rows of a large model are those of its layers' first names.
std::string describe_tensors(const TrainingTask& task);
// All of them: {"name", "kind", "type", "elements", "trained"}.
OrderedJson tensors_json(const TrainingTask& task);

}  // namespace rookery
