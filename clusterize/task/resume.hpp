// Lets a plan go on with a run: on other machines, in another cut, with other settings.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "clusterize/costs/training_task.hpp"
#include "clusterize/plan/cluster_plan.hpp"
#include "trainer/progress/run_state.hpp"

namespace rookery {

struct Resumption {
  RunState run;
  // For people: where it goes on, which settings are not as they were, and where the bits will not be those
  // of the run undisturbed.
  std::vector<std::string> lines;
};

// Gives the task the place and the kernels of the checkpoint that checkpoints_named() finds for this name
// (the newest that is whole; where none is in `node_data` as a whole, the newest, whose other parts the
// providers have). What lies in another folder is copied to `node_data`. ConfigError where there is none, it
// is of another model or optimizer, or the settings cannot go on there (going_on()); DataError for files.
Resumption resume_task(TrainingTask& task, const std::filesystem::path& node_data,
                       const std::string& step_or_folder);

// Gives settings whose micro-batches are undecided() those of the run that resume_task() would go on with, if
// it has batches of the same size by a synchronous schedule: its bits depend on their number. Throws what
// that throws of the checkpoint.
void keep_micro_batches(TrainingSettings& settings, const std::filesystem::path& node_data,
                        const std::string& step_or_folder);

// ConfigError where the run's place is within a step of all clusters of the plan.
void check_place(const RunState& run, const TrainingTask& task, const ClusterPlan& plan);

}  // namespace rookery
