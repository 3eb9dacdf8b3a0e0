// clusterize tells more about a plan than the plan itself where arguments ask for it.
#pragma once

#include <set>
#include <string>

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/search/search.hpp"
#include "clusterize/simulation_arguments.hpp"

namespace rookery {

struct PlanReportOptions {
  std::optional<SimulationOptions> simulation;
  bool explanation = false;
  std::filesystem::path folder;                 // of the plan; what TensorBoard shows is written there
  std::filesystem::path picture;                // of the plan
  std::filesystem::path schedule;               // of one step
  std::vector<std::filesystem::path> measured;  // traces to draw beside it
};

void add_plan_report_options(ProgramOptions& options);
// UsageError for values out of range. Pictures are drawn in `node_data`, where no other place is asked for.
PlanReportOptions plan_report_options(const ProgramArguments& arguments,
                                      const std::filesystem::path& node_data, std::uint64_t seed);

// The plan, and what the options ask for.
struct PlanReport {
  std::string text;
  std::string json;  // plan.json, with `simulation` and `explanation`
};

// The things that a plan was made from.
struct PlanSource {
  const TrainingTask& task;
  const Json& pool_document;  // node_configs.json
  const std::set<std::string>& excluded;
  const NodePool& pool;  // without these
  const SearchOptions& search;
};

// Writes the pictures, too: DataError naming the file that cannot be written, and it is as it was before.
PlanReport report_plan(const PlanSource& source, const Planned& planned, const PlanReportOptions& options);

}  // namespace rookery
