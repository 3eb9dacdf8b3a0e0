// launch: all providers of a plan on this machine.

#include <filesystem>
#include <optional>

#include "clusterize/plan/node_metadata.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/program.hpp"
#include "models/base/process/stop_signals.hpp"
#include "models/base/process/team_waits.hpp"
#include "models/base/process/terminal.hpp"
#include "models/base/process/threads_option.hpp"
#include "node/launch/launcher.hpp"
#include "node/options/json_options.hpp"
#include "node/options/limit_options.hpp"
#include "node/options/start_options.hpp"
#include "node/run/plan_run.hpp"

namespace rookery {
namespace {

int launch(const ProgramArguments& arguments) {
  LauncherOptions options;
  options.provider = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "provider";
  options.node_data = arguments["node-data"].as<std::string>();
  options.output = arguments["output"].as<std::string>();
  options.start = start_choice_of(arguments);
  options.threads = threads_of(arguments);
  options.limits = limits_of(arguments);
  if (const std::optional<double> seconds = json_interval_of(arguments)) {
    options.json_interval = fmt::format("{}", *seconds);
    show_no_progress();
  }
  options.output_arguments = output_arguments(arguments);
  const std::vector<NodeMetadata> nodes = read_all_metadata(options.node_data);
  catch_stop_signals();
  Launcher launcher(options, nodes);
  return launcher.run();
}

}  // namespace

int launch_main(int argc, char** argv) {
  let_teams_of_children_sleep();
  const ProgramInfo info{
      .name = "launch",
      .summary =
          "starts the provider of every node of the plan on this machine, and shows their progress together. "
          "When one fails, all end; the last line says which failed first and why, and its exit code is that "
          "of launch. Ctrl-C ends them all, after a checkpoint of the step that is being trained; Ctrl-C "
          "again "
          "ends them at once.",
      .example =
          "  clusterize\n  launch\n  launch --threads 2\n"
          "  launch --limit-mbps 100 --add-latency-ms 25\n"
          "  launch --json --progress-interval 10 > events.jsonl\n"};
  namespace po = boost::program_options;
  ProgramOptions options;
  options.add_options()("node-data", po::value<std::string>()->default_value("./node_data"),
                        "folder that clusterize wrote")(
      "output", po::value<std::string>()->default_value("."),
      "folder for losses.txt, val_losses.txt and val_accuracies.txt");
  add_json_options(options, "the events of all nodes, and at the end how it ended,");
  add_limit_options(options);
  add_start_options(
      options,
      {.resume = "go on from the newest checkpoint of this plan, if there is one",
       .sync_from = "all other clusters begin with the parameters of this one, which alone goes on from "
                    "its checkpoints: launch --resume --sync-from 0 --sync-optimizer"});
  add_threads_option(
      options,
      "threads for arithmetic of each provider, whose number changes no bits; without it those that "
      "the plan gives the node, shared out where all have more than there are processors");
  return run_program(info, options, argc, argv, launch);
}

}  // namespace rookery
