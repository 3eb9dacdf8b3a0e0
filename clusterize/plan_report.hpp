// clusterize tells more about a plan than the plan itself where arguments ask for it.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "clusterize/costs/planned.hpp"
#include "clusterize/costs/training_task.hpp"
#include "clusterize/report/pictures/png_copy.hpp"
#include "clusterize/search/search.hpp"
#include "clusterize/simulation_arguments.hpp"
#include "models/base/files/files.hpp"

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
  // Pictures and the like, which are not in their places yet, and those of them that are wanted as PNG.
  std::vector<std::unique_ptr<AtomicFile>> files;
  std::vector<PngCopy> images;
};

// The things that a plan was made from.
struct PlanSource {
  const TrainingTask& task;
  const Json& pool_document;  // node_configs.json
  const std::set<std::string>& excluded;
  const SearchOptions& search;
};

// DataError naming the file that cannot be written.
PlanReport report_plan(const PlanSource& source, const Planned& planned, const PlanReportOptions& options);
// Puts the files of a report in the places of earlier ones, when the plan is in its place.
void put_in_place(PlanReport& report);

}  // namespace rookery
