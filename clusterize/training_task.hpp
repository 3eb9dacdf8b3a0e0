// What train.json asks for, made ready for planning.
#pragma once

#include <filesystem>

#include "clusterize/planner.hpp"
#include "models/kernels/measured.hpp"
#include "trainer/data/dataset.hpp"

namespace rookery {

// ConfigError when samples or labels of the data set do not fit the model.
void check_fit(const Graph& model, const Dataset& dataset, const TrainingSettings& settings);

// Builds the model with its loss, opens the data set for its sizes, and chooses kernels for the whole
// graph, by `measured` where given. Throws what these throw, and ConfigError when the split leaves nothing
// to train on.
TrainingTask make_task(const TrainingSettings& settings, const std::filesystem::path& node_data,
                       MeasuredKernels* measured = nullptr);

}  // namespace rookery
