// provider: one machine's part in training.
#include <spdlog/spdlog.h>

#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/plan/plan_lock.hpp"
#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/machine/processors.hpp"
#include "models/base/process/log.hpp"
#include "models/base/process/program.hpp"
#include "models/base/process/stop_signals.hpp"
#include "models/base/process/team_waits.hpp"
#include "models/base/process/threads_option.hpp"
#include "models/kernels/threads.hpp"
#include "node/machine.hpp"
#include "node/node.hpp"
#include "node/options/json_options.hpp"
#include "node/options/limit_options.hpp"
#include "node/options/start_options.hpp"
#include "node/progress_pace.hpp"
#include "node/provider_events.hpp"
#include "node/run_display.hpp"
#include "node/sockets/address.hpp"
#include "node/wire/stream.hpp"
#include "trainer/progress/tensorboard/run_folder.hpp"

namespace rookery {
namespace {

// Tells events as they come: for programs JSON lines, for people what RunDisplay shows. That standard output
// cannot be written to is no reason to lose a run: run_program looks at it at the end. Any thread.
class Teller {
 public:
  // `json_interval`: seconds.
  Teller(const std::string& node, std::optional<double> json_interval) {
    if (json_interval) {
      json_interval_ =
          std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*json_interval));
      return;
    }
    display_.emplace(std::vector<std::string>{node});
    ticker_ = std::jthread([this](const std::stop_token& stop) { tick(stop); });
  }

  // Events of these will be told, too.
  void add(const std::vector<std::string>& nodes) {
    const std::scoped_lock lock(mutex_);
    for (const std::string& node : nodes)
      if (display_) display_->add(node);
  }

  void tell(const ProviderEvent& event) {
    const std::scoped_lock lock(mutex_);
    if (display_) {
      display_->show(event, Clock::now());
    } else if (event.kind != ProviderEvent::Kind::kProgress ||
               json_paces_.try_emplace(event.node, json_interval_)
                   .first->second.is_due(event.progress, Clock::now())) {
      print_now(to_json_line(event) + "\n");
    }
  }

  // People read it on standard error, from run_program.
  void tell_failure(const ProviderEvent& event) {
    if (!display_) tell(event);
  }

  // What people read at the end, below all else.
  void conclude(const std::string& text) {
    if (!display_) return;
    const std::scoped_lock lock(mutex_);
    display_->finish();
    display_->print(stdout, text);
  }

 private:
  void tick(const std::stop_token& stop) {
    constexpr std::chrono::seconds kPeriod{1};
    std::unique_lock lock(mutex_);
    int seen_stopping = 0;
    while (!wake_.wait_for(lock, stop, kPeriod, [&] { return stop.stop_requested(); })) {
      if (is_stop_deferred() && ++seen_stopping == 2) {  // it takes a while
        display_->print(stderr,
                        "stopping: the step that is being trained is ended and its checkpoint written first; "
                        "another signal ends this at once");
      }
      display_->tick(Clock::now());
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  Clock::duration json_interval_{};
  std::map<std::string, EventPace> json_paces_;  // by node
  std::optional<RunDisplay> display_;            // for people
  std::jthread ticker_;                          // ends before what it uses
};

// From --name, or from a link: provider_2 is node_2.
std::string node_name(const ProgramArguments& arguments, const std::string& called_as) {
  if (arguments.count("name") != 0) return arguments["name"].as<std::string>();
  constexpr std::string_view kPrefix = "provider_";
  if (called_as.starts_with(kPrefix)) return "node_" + called_as.substr(kPrefix.size());
  throw UsageError("which node is this? Give --name node_N (see provider --help)");
}

NodeOptions node_options(const ProgramArguments& arguments, const std::string& called_as) {
  NodeOptions options;
  options.name = node_name(arguments, called_as);
  options.node_data = arguments["node-data"].as<std::string>();
  options.output = arguments["output"].as<std::string>();
  options.trace = arguments["trace"].as<std::string>();
  options.listen = arguments["listen"].as<std::string>();
  if (!options.listen.empty()) check_address("--listen", options.listen);
  options.start = start_choice_of(arguments);
  if (options.start.resume && options.start.sync_from)
    throw UsageError(
        "--resume goes on with a state of this node's own, --sync-from with another cluster's: not both");
  options.threads = threads_of(arguments);
  const NetworkLimits limits = limits_of(arguments);
  if (limits.any()) options.slow_network = std::make_shared<SlowNetwork>(limits);
  options.wait_for_peers = std::chrono::milliseconds(
      static_cast<std::int64_t>(1000 * seconds_of(arguments, "wait-for-peers", false)));
  return options;
}

std::string threads_text(int threads, int processors) {
  std::string text = fmt::format("computes on {} thread{} of {} processor{}", threads,
                                 threads == 1 ? "" : "s", processors, processors == 1 ? "" : "s");
  if (threads > processors) text += ": fewer threads would be faster, see --threads";
  return text;
}

// What rookery_report reads: beside the Leaf's files in runs/. That it cannot be written ends nothing.
void keep_end(const NodeOptions& options, const NodeMetadata& metadata, const ProviderEvent& end) {
  if (!metadata.settings.tensorboard) return;
  const std::filesystem::path folder = run_folder_of(options.output, metadata.settings.model);
  try {
    OrderedJson kept = OrderedJson::parse(to_json_line(end));
    kept["plan_id"] = metadata.plan_id;
    make_directories(folder);
    write_file(folder / (end.node + ".json"), kept.dump(2) + "\n");
  } catch (const Error& error) {
    spdlog::warn("{}", error.what());
  }
}

// One node's part, until its end; what people read then.
std::string provide(NodeOptions options, const std::function<void()>& made, Teller& teller) {
  using Kind = ProviderEvent::Kind;
  std::string role;  // set before run(), whose threads read it
  std::optional<Node> opened;
  const auto event = [&, name = options.name](Kind kind, std::string text) {
    return ProviderEvent{.kind = kind, .node = name, .role = role, .text = std::move(text)};
  };
  options.on_waiting = [&](const std::string& text) { teller.tell(event(Kind::kWaiting, text)); };
  options.on_training = [&] { teller.tell(event(Kind::kTraining, "all nodes are here: training")); };
  options.on_progress = [&](const Progress& progress) {
    ProviderEvent told = event(Kind::kProgress, "");
    told.progress = progress;
    told.waiting = progress.seconds > 0 ? progress.waiting / progress.seconds : 0;
    told.waits_for = waits_for(opened->metadata(), progress);
    teller.tell(told);
  };
  try {
    Node& node = opened.emplace(options);
    role = node.metadata().role();
    teller.tell(event(Kind::kWaiting, threads_text(kernel_threads(), usable_processors())));
    made();
    const NodeReport report = node.run();
    ProviderEvent done = event(Kind::kDone, report_text(node.metadata(), report));
    done.times = compared_times(node.metadata(), report);
    done.stolen = report.stolen;
    done.rounds = report.rounds;
    done.exposed_seconds = report.exposed_seconds;
    done.ring_bytes = report.ring_bytes;
    keep_end(options, node.metadata(), done);
    teller.tell(done);
    return fmt::format("{}: {}", done.node, done.text);
  } catch (const std::exception& error) {
    const ProviderEvent failed = event(Kind::kFailed, error.what());
    if (opened) keep_end(options, opened->metadata(), failed);
    teller.tell_failure(failed);
    throw;
  }
}

// Those of the plan that is there when no clusterize writes one. It stays as long as the lock lives.
std::vector<std::string> nodes_of(const NodeOptions& first, std::optional<FileLock>& lock, Teller& teller) {
  using Kind = ProviderEvent::Kind;
  try {
    lock.emplace(lock_for_running(first.node_data, [&](const std::string& text) {
      teller.tell({.kind = Kind::kWaiting, .node = first.name, .text = text});
    }));
    return nodes_of_machine(first.node_data, first.name);
  } catch (const std::exception& error) {
    teller.tell_failure({.kind = Kind::kFailed, .node = first.name, .text = error.what()});
    throw;
  }
}

int provide(const ProgramArguments& arguments, const std::string& called_as) {
  const NodeOptions options = node_options(arguments, called_as);
  const std::optional<double> interval = json_interval_of(arguments);
  init_logging(options.name);
  Teller teller(options.name, interval);
  catch_stop_signals();
  std::optional<FileLock> lock;
  const std::vector<std::string> nodes = nodes_of(options, lock, teller);
  teller.add({nodes.begin() + 1, nodes.end()});
  std::map<std::string, std::string> ends;  // by node
  std::mutex ends_mutex;
  const auto conclude = [&] {
    for (const auto& [node, text] : ends) teller.conclude(text);
  };
  try {
    run_nodes(nodes, options, [&](const NodeOptions& own, const std::function<void()>& made) {
      std::string end = provide(own, made, teller);
      const std::scoped_lock guard(ends_mutex);
      ends[own.name] = std::move(end);
    });
  } catch (...) {
    conclude();
    throw;
  }
  conclude();
  return kDone;
}

}  // namespace

int provider_main(int argc, char** argv) {
  let_teams_sleep(argv);
  const std::string called_as = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "provider";
  const ProgramInfo info{
      .name = called_as,
      .summary =
          "trains one node's stage of the plan that clusterize wrote, or all stages that the plan's schedule "
          "gives this machine, together with the providers of all other nodes. Start one on each machine, in "
          "any order; each waits for the others. Ctrl-C in one "
          "ends them all. Called through a link named provider_2 it is --name node_2.",
      .example =
          "  clusterize\n  provider --name node_2 &\n  provider --name node_1 &\n  provider --name node_0\n"
          "  provider --name node_0 --threads 4\n"
          "  provider --name node_0 --trace node_0.json\n"};
  namespace po = boost::program_options;
  ProgramOptions options;
  options.add_options()("name", po::value<std::string>(),
                        "which node of the plan this is: node_0, node_1, ...")(
      "node-data", po::value<std::string>()->default_value("./node_data"), "folder that clusterize wrote")(
      "output", po::value<std::string>()->default_value("."),
      "folder for losses.txt, val_losses.txt and val_accuracies.txt (the Leaf writes them)")(
      "listen", po::value<std::string>()->default_value(""),
      "HOST:PORT to listen at, where it is not the address at which the others reach this machine: behind a "
      "forwarded "
      "port, or in a container")("wait-for-peers", po::value<double>()->default_value(300, "300"),
                                 "seconds to wait for the other providers")(
      "trace", po::value<std::string>()->default_value("")->value_name("FILE"),
      "write there at the end what this node computed when, as Chrome trace JSON, e.g. node_0.json: "
      "chrome://tracing and ui.perfetto.dev show it, and clusterize --measured node_0.json draws it beside "
      "the "
      "simulated step");
  add_json_options(options, "progress");
  add_limit_options(options);
  add_start_options(
      options,
      {.resume =
           "go on from the newest checkpoint that all nodes of this plan have, or else all of a cluster, if "
           "there is one",
       .sync_from =
           "begin with the parameters of this cluster, which its nodes send when all are here, and with its "
           "step; given to all providers of a cluster: provider --name node_3 --sync-from 0 "
           "--sync-optimizer, "
           "where cluster 0 goes on with --resume"});
  add_threads_option(
      options,
      "threads for arithmetic, whose number changes no bits; without it those that the plan gives "
      "the node, shared out where the plan's nodes on this machine have more than there are "
      "processors. More threads take more memory than was planned");
  return run_program(info, options, argc, argv,
                     [&](const ProgramArguments& arguments) { return provide(arguments, called_as); });
}

}  // namespace rookery
