// provider: one machine's part in training.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>

#include "models/base/error.hpp"
#include "models/base/log.hpp"
#include "models/base/program.hpp"
#include "node/address.hpp"
#include "node/node.hpp"
#include "node/provider_events.hpp"
#include "node/stream.hpp"

namespace rookery {
namespace {

// Shows events as they come: JSON lines, one live line on a terminal, a line at every tenth of the
// epochs elsewhere. Any thread.
class Display {
 public:
  explicit Display(bool json) : json_(json), live_(!json && ::isatty(STDOUT_FILENO) != 0) {}

  // What is printed next, an error for instance, begins a line of its own.
  ~Display() {
    if (line_is_open_) fmt::print("\n");
    std::fflush(stdout);
  }
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  void show(const ProviderEvent& event) {
    const std::scoped_lock lock(mutex_);
    if (event.kind == ProviderEvent::Kind::kProgress && !is_due(event.progress)) return;
    if (json_) {
      fmt::print("{}\n", to_json_line(event));
    } else if (event.kind == ProviderEvent::Kind::kDone) {
      fmt::print("{}{}: {}\n", line_is_open_ ? "\n" : "", event.node, event.text);
      line_is_open_ = false;
    } else if (live_) {
      fmt::print("\r\x1b[K{}", to_line(event));
      line_is_open_ = true;
    } else {
      fmt::print("{}\n", to_line(event));
    }
    std::fflush(stdout);
  }

 private:
  bool is_due(const Progress& progress) {
    const auto now = Clock::now();
    const bool last = progress.step == progress.steps;
    if (json_ || live_) {
      if (!last && now - shown_ < std::chrono::milliseconds(100)) return false;
      shown_ = now;
      return true;
    }
    const std::int64_t tenth = progress.steps == 0 ? 10 : 10 * progress.step / progress.steps;
    if (tenth == tenth_) return false;
    tenth_ = tenth;
    return true;
  }

  const bool json_;
  const bool live_;
  bool line_is_open_ = false;
  std::mutex mutex_;
  Clock::time_point shown_{};
  std::int64_t tenth_ = 0;
};

// From --name, or from a link: provider_2 is node_2.
std::string node_name(const ProgramArguments& arguments, const std::string& called_as) {
  if (arguments.count("name") != 0) return arguments["name"].as<std::string>();
  constexpr std::string_view kPrefix = "provider_";
  if (called_as.starts_with(kPrefix)) return "node_" + called_as.substr(kPrefix.size());
  throw UsageError("which node is this? Give --name node_N (see provider --help)");
}

int provide(const ProgramArguments& arguments, const std::string& called_as) {
  NodeOptions options;
  options.name = node_name(arguments, called_as);
  init_logging(options.name);
  options.node_data = arguments["node-data"].as<std::string>();
  options.output = arguments["output"].as<std::string>();
  options.listen = arguments["listen"].as<std::string>();
  if (!options.listen.empty()) check_address("--listen", options.listen);
  options.threads = arguments["threads"].as<int>();
  if (options.threads < 1) throw UsageError(fmt::format("--threads {}: 1 or more", options.threads));
  const double wait = arguments["wait-for-peers"].as<double>();
  if (!(wait > 0 && wait < 1e6))
    throw UsageError(fmt::format("--wait-for-peers {}: a number of seconds above 0", wait));
  options.wait_for_peers = std::chrono::milliseconds(static_cast<std::int64_t>(wait * 1000));

  Display display(arguments.count("json") != 0);
  ProviderEvent event{.node = options.name};
  options.on_progress = [&](const Progress& progress) {
    event.kind = ProviderEvent::Kind::kProgress;
    event.progress = progress;
    display.show(event);
  };
  options.on_waiting = [&display, name = options.name](const std::string& text) {
    display.show({.kind = ProviderEvent::Kind::kWaiting, .node = name, .text = text});
  };
  catch_stop_signals();
  Node node(options);
  event.role = node.metadata().role();
  const NodeReport report = node.run();
  display.show({.kind = ProviderEvent::Kind::kDone,
                .node = options.name,
                .role = event.role,
                .text = report_text(node.metadata(), report),
                .times = compared_times(node.metadata(), report),
                .stolen = report.stolen});
  return kDone;
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  using namespace rookery;
  const std::string called_as = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "provider";
  const ProgramInfo info{
      .name = called_as,
      .summary =
          "trains one node's stage of the plan that clusterize wrote, together with the providers of all "
          "other nodes. Start one on each machine, in any order; each waits for the others. Ctrl-C in one "
          "ends them all. Called through a link named provider_2 it is --name node_2.",
      .example =
          "  clusterize\n  provider --name node_2 &\n  provider --name node_1 &\n  provider --name node_0\n"};
  namespace po = boost::program_options;
  ProgramOptions options("provider");
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
      "threads", po::value<int>()->default_value(1),
      "threads for arithmetic; another number may change the last bits")(
      "json", "print progress as one JSON object a line");
  return run_program(info, options, argc, argv,
                     [&](const ProgramArguments& arguments) { return provide(arguments, called_as); });
}
