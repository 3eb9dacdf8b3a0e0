// The folder of one stage: its graph and weights as ONNX, and where its values come from and go to. See
// node_data/README.md.
#pragma once

#include <filesystem>
#include <string>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/plan/plan_weights.hpp"
#include "models/graph/stage.hpp"
#include "models/graph/state/state_dict.hpp"

namespace rookery {

// submod.onnx, the files of its weights, submod_<stage>_input.json, submod_<stage>_output.json and, on
// the Root, model_inputs.json. Each carries the plan's id.
void write_stage(const std::filesystem::path& folder, const Stage& stage, PlanWeights& weights);

struct LoadedStage {
  Stage stage;
  StateDict state;
};
// Reads them again, appends the losses on the last stage, takes over the metadata's shared parameters, and
// checks that all are of the metadata's plan, and routing against graph and metadata. ConfigError or
// DataError naming file and value.
LoadedStage read_stage(const std::filesystem::path& folder, const NodeMetadata& metadata);
// Are all of them there, whole, and of the metadata's plan? Weights are not read.
bool holds_stage(const std::filesystem::path& folder, const NodeMetadata& metadata);
// Is this the name of a file that write_stage() makes?
bool is_stage_file(const std::string& name);

}  // namespace rookery
