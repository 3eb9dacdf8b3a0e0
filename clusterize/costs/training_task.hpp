// A plan is made for a training task: the model, its data and how it is trained.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "clusterize/profile/op_profile.hpp"
#include "models/graph/state/state_dict.hpp"
#include "models/io/onnx/module.hpp"
#include "models/kernels/choose.hpp"
#include "trainer/encoding/edge_encoding.hpp"
#include "trainer/settings/batch_sizes.hpp"
#include "trainer/settings/resume_point.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// The model, its data and the settings that it is trained with.
struct TrainingTask {
  Graph graph;  // of the whole model, loss included
  TrainingSettings settings;
  DataSizes data;
  KernelChoice kernels;
  // weights_digest() of what training starts from, where that does not follow from the seed.
  std::string weights;
  std::optional<ResumePoint> resume = {};        // of the run that it goes on with
  StateDict model_weights = {};                  // that the model's file has
  std::optional<ModuleDescription> module = {};  // that it says it is of
  std::set<std::string> module_buffers = {};     // by its file
  std::vector<std::string> warnings = {};        // of its file
  StateDict model_extras = {};                   // of the module's state dict, not of the graph
  std::optional<OpProfile> profile = {};         // measured times of this graph's ops, where there are any
};

// How stages send each other values and gradients, but for what is chosen for a link.
inline EdgeEncoding encoding_of(const TrainingTask& task) {
  return {task.settings.transport, input_names(task.graph), task.data.train_samples};
}

}  // namespace rookery
