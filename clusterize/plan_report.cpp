#include "clusterize/plan_report.hpp"

#include <map>

#include "clusterize/report/explanation.hpp"
#include "clusterize/report/pictures/plan_picture.hpp"
#include "clusterize/report/pictures/png_copy.hpp"
#include "clusterize/report/pictures/schedule_picture.hpp"
#include "clusterize/report/report.hpp"
#include "clusterize/report/simulation_report.hpp"
#include "clusterize/report/tensor_table.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "trainer/progress/tensorboard/graph_def.hpp"
#include "trainer/progress/tensorboard/run_folder.hpp"

namespace rookery {
namespace {

namespace po = boost::program_options;

std::filesystem::path path_of(const ProgramArguments& arguments, const char* name,
                              const std::filesystem::path& otherwise) {
  if (arguments.count(name) == 0) return otherwise;
  return arguments[name].as<std::string>();
}

// For TensorBoard: with the first cluster's nodes as devices.
std::string graph_with_nodes(const TrainingTask& task, const Planned& planned) {
  std::map<std::string, std::string> nodes;  // by op
  const std::vector<Stage>& stages = planned.stages.front();
  for (std::size_t i = 0; i < stages.size(); ++i) {
    for (const Op& op : stages[i].graph.ops())
      nodes.emplace(op.name, planned.plan.clusters.front().stages.at(i).node);
  }
  return graph_def(task.graph, [&](const Op& op) {
    const auto node = nodes.find(op.name);
    return node == nodes.end() ? std::string() : node->second;
  });
}

}  // namespace

void add_plan_report_options(ProgramOptions& options) {
  options.add_options()("explain",
                        "say what limits the speed of the plan, and what one more node or a faster "
                        "bottleneck would bring");
  options.add_options()(
      "svg", po::value<std::string>()->value_name("FILE"),
      "where the plan is drawn: clusters, stages, links, rings and the bottleneck; default: "
      "plan.svg in the folder of node_configs.json");
  options.add_options()(
      "gantt", po::value<std::string>()->value_name("FILE"),
      "where one simulated step is drawn: what every node does, and when; default: step.svg there");
  options.add_options()("measured",
                        po::value<std::vector<std::string>>()->multitoken()->value_name("FILE..."),
                        "draw beside the simulated step one as it was measured, from what providers of this "
                        "plan wrote with --trace, e.g. --measured node_0.json node_1.json");
  add_simulation_options(options);
}

PlanReportOptions plan_report_options(const ProgramArguments& arguments,
                                      const std::filesystem::path& node_data, std::uint64_t seed) {
  PlanReportOptions options{.simulation = simulation_options(arguments, seed),
                            .explanation = arguments.count("explain") != 0,
                            .folder = node_data,
                            .picture = path_of(arguments, "svg", node_data / "plan.svg"),
                            .schedule = path_of(arguments, "gantt", node_data / "step.svg")};
  if (arguments.count("measured") == 0) return options;
  for (const std::string& file : arguments["measured"].as<std::vector<std::string>>())
    options.measured.emplace_back(file);
  return options;
}

PlanReport report_plan(const PlanSource& source, const Planned& planned, const PlanReportOptions& options) {
  const auto& [task, pool_document, excluded, search] = source;
  OrderedJson document = to_json(planned.plan);
  document["tensors"] = tensors_json(task);
  std::string text =
      (task.settings.model.ends_with(".onnx") || !task.settings.frozen.empty() ? describe_tensors(task)
                                                                               : "") +
      describe_plan(task, planned);
  const Bottleneck bottleneck = find_bottleneck(task, planned.pool, planned);
  if (options.explanation) {
    const Explanation explanation = explain(pool_document, excluded, search, planned, bottleneck);
    document["explanation"] = to_json(explanation);
    text += "\n" + describe_explanation(explanation);
  }
  if (options.simulation) {
    const Simulation simulation = simulate(task, planned.pool, planned, *options.simulation);
    document["simulation"] = to_json(simulation, *options.simulation);
    text += "\n" + describe_simulation(simulation, *options.simulation, task.settings);
  }
  PlanReport report{.text = std::move(text), .json = document.dump(2) + "\n"};
  const auto add = [&](const std::filesystem::path& path, const std::string& content) {
    report.files.push_back(std::make_unique<AtomicFile>(path));
    report.files.back()->write(content);
  };
  const std::string picture = plan_picture(planned.pool, planned, bottleneck);
  add(options.picture, picture);
  const MeasuredStep measured = measured_step(options.measured, planned.plan, steps_to_draw(task, planned));
  const std::string schedule = schedule_picture(task, planned.pool, planned, bottleneck, measured);
  add(options.schedule, schedule);
  if (task.settings.tensorboard) {
    add(options.folder / plan_files::kGraph, graph_with_nodes(task, planned));
    report.images = {{picture, options.folder / plan_files::kPlanImage},
                     {schedule, options.folder / plan_files::kStepImage}};
  }
  return report;
}

void put_in_place(PlanReport& report) {
  for (const std::unique_ptr<AtomicFile>& file : report.files) file->commit();
  write_png_copies(report.images);
}

}  // namespace rookery
