// The functions here make what train.json asks for ready for planning.
#pragma once

#include <filesystem>
#include <set>

#include "clusterize/costs/training_task.hpp"
#include "models/kernels/measured.hpp"
#include "trainer/data/dataset.hpp"

namespace rookery {

// Opens the model, adds its losses, opens the data set for its sizes, and chooses kernels for the whole
// graph, by `measured` where given, unless its micro-batches are undecided(). Throws what these throw,
// ConfigError when samples and targets of the data set do not fit the model or the split leaves nothing to
// train on, and DataError for a label that the model has no class for.
TrainingTask make_task(const TrainingSettings& settings, const std::filesystem::path& node_data,
                       MeasuredKernels* measured = nullptr);

// The same for a model, without losses, and a data set of one's own; settings say what they are called.
TrainingTask make_task(const Graph& model, const Dataset& dataset, const TrainingSettings& settings,
                       MeasuredKernels* measured = nullptr);

// Gives the task its kernels, for its micro-batches.
void choose_kernels(TrainingTask& task, MeasuredKernels* measured = nullptr);

// Gives the task the times of its ops: measured now and written to op_profile.json, or those of that file
// where they hold for this model; why they do not is said on standard error. `threads`: all numbers of them
// that nodes have; of those that this machine has no processors for, as many as it has are measured.
void add_profile(TrainingTask& task, const std::filesystem::path& node_data, bool measure,
                 const std::set<int>& threads);

}  // namespace rookery
