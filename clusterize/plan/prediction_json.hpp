// Writes predictions and routing into files, and reads them. Internal to this module.
#pragma once

#include <string_view>
#include <vector>

#include "clusterize/plan/stage_prediction.hpp"
#include "models/base/files/json_file.hpp"
#include "models/graph/stage.hpp"

namespace rookery {

OrderedJson to_json(const StagePrediction& prediction);
// The document has passed prediction_schema().
StagePrediction prediction_from_json(const Json& document);
const Json& prediction_schema();

// One edge of a stage. Stages are numbers; what is absent is left out.
OrderedJson to_json(const StageInput& input);
OrderedJson to_json(const StageOutput& output);
OrderedJson to_json(const SharedParameter& shared);
// Documents have passed input_schema(), output_schema() and shared_schema().
StageInput input_from_json(const Json& document);
StageOutput output_from_json(const Json& document);
SharedParameter shared_from_json(const Json& document);
const Json& input_schema();
const Json& output_schema();
const Json& shared_schema();

}  // namespace rookery
