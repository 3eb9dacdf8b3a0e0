// Lets a plan go on with a run: on other machines, in another cut, with other settings.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "clusterize/costs/training_task.hpp"

namespace rookery {

// Gives the task the place and the kernels of the checkpoint that checkpoints_named() finds for this name
// (the newest that is whole; where none is in `node_data` as a whole, the newest, whose other parts the
// providers have). What lies in another folder is copied to `node_data`. Lines for people: where it goes on,
// which settings are not as they were, and where the bits will not be those of the run undisturbed.
// ConfigError where there is none, it is of another model or optimizer, or the settings cannot go on there
// (going_on()); DataError for files.
std::vector<std::string> resume_task(TrainingTask& task, const std::filesystem::path& node_data,
                                     const std::string& step_or_folder);

}  // namespace rookery
