#include "clusterize/search_arguments.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/machine/processors.hpp"
#include "models/base/parse.hpp"
#include "models/base/process/terminal.hpp"

namespace rookery {
namespace {

namespace po = boost::program_options;

constexpr int kMostThreads = 1024;
constexpr int kMostClusters = 1'000'000;

// "3" and "node_3" are the same node.
std::string node_id(const std::string& name) {
  const std::string_view prefix = "node_";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

int whole_number(std::string_view text, const std::string& argument) {
  const std::optional<int> number = number_from<int>(text);
  if (!number || *number < 0 || *number > kMostClusters)
    throw UsageError(
        fmt::format("{}: '{}' is not a whole number from 0 to {}", argument, text, kMostClusters));
  return *number;
}

// "node_3=0:1" pins node_3 to stage 1 of cluster 0.
std::pair<int, Pin> pin_of(const std::string& text, const NodePool& pool) {
  const std::string argument = "--pin " + text;
  const std::size_t equals = text.find('=');
  const std::size_t colon = text.find(':', equals == std::string::npos ? 0 : equals);
  if (equals == std::string::npos || colon == std::string::npos)
    throw UsageError(argument + ": must be NODE=CLUSTER:STAGE, e.g. node_3=0:1");
  const std::string id = node_id(text.substr(0, equals));
  const auto node = std::ranges::find(pool.nodes(), id, &PoolNode::id);
  if (node == pool.nodes().end()) throw UsageError(fmt::format("{}: there is no node '{}'", argument, id));
  const std::string_view place(text);
  return {static_cast<int>(node - pool.nodes().begin()),
          {.cluster = whole_number(place.substr(equals + 1, colon - equals - 1), argument),
           .stage = whole_number(place.substr(colon + 1), argument)}};
}

int positive(const ProgramArguments& arguments, const std::string& name, int most) {
  const int value = arguments[name].as<int>();
  if (value < 1 || value > most)
    throw UsageError(fmt::format("--{} {}: must be from 1 to {}", name, value, most));
  return value;
}

Objective objective_of(const std::string& name) {
  for (const Objective objective : {Objective::kSimilar, Objective::kThroughput, Objective::kLatency}) {
    if (name == name_of(objective)) return objective;
  }
  throw UsageError(fmt::format("--objective {}: must be similar, throughput or latency", name));
}

// Empty where nobody would see it.
std::function<void(const std::string& best, double share)> progress_display() {
  const auto lines = std::make_shared<LiveLines>(stderr);
  if (!lines->is_terminal()) return {};
  return [lines](const std::string& best, double share) {
    lines->tell(fmt::format("search {:3.0f} %: {}", 100 * share, best));
  };
}

}  // namespace

void add_search_options(ProgramOptions& options) {
  options.add_options()(
      "objective", po::value<std::string>()->value_name("NAME"),
      "similar: clusters alike in RAM and bandwidth; throughput: most samples per second; latency: one "
      "cluster "
      "with the shortest step. Default: throughput where node_configs.json gives gflops or a network, "
      "otherwise similar");
  options.add_options()("clusters", po::value<int>()->value_name("N"), "exact number of clusters");
  options.add_options()("min-nodes-per-cluster", po::value<int>()->value_name("N"),
                        "minimum nodes per cluster; default: 3 with the objective similar, otherwise 1");
  options.add_options()("pin",
                        po::value<std::vector<std::string>>()->composing()->value_name("NODE=CLUSTER:STAGE"),
                        "place a node at this stage of this cluster, counted from 0, e.g. node_3=0:1; may be "
                        "repeated");
  options.add_options()("exclude", po::value<std::vector<std::string>>()->composing()->value_name("NODE"),
                        "leave this node out of the plan; may be repeated");
  options.add_options()("max-staleness", po::value<int>()->value_name("UPDATES"),
                        "instead of max_staleness in train.json: with schedule async, by how many updates a "
                        "gradient may be late at most");
  options.add_options()("time-limit", po::value<double>()->value_name("SECONDS"),
                        "stop the search after this time, with the best plan so far");
  options.add_options()("threads", po::value<int>()->value_name("N"),
                        "threads of the search; default: one per processor that there is to use");
}

std::set<std::string> excluded_nodes(const ProgramArguments& arguments) {
  std::set<std::string> ids;
  if (arguments.count("exclude") == 0) return ids;
  for (const std::string& name : arguments["exclude"].as<std::vector<std::string>>())
    ids.insert(node_id(name));
  return ids;
}

void take_staleness(const ProgramArguments& arguments, TrainingSettings& settings) {
  if (arguments.count("max-staleness") == 0) return;
  const int most = arguments["max-staleness"].as<int>();
  if (most < 0 || most > kMostStaleness)
    throw UsageError(fmt::format("--max-staleness {}: must be from 0 to {}", most, kMostStaleness));
  settings.schedule.max_staleness = most;
}

SearchOptions search_options(const ProgramArguments& arguments, const NodePool& pool, std::uint64_t seed) {
  std::optional<Objective> objective;
  if (arguments.count("objective") != 0) objective = objective_of(arguments["objective"].as<std::string>());
  SearchOptions options = usual_search(pool, seed, objective);
  if (arguments.count("min-nodes-per-cluster") != 0)
    options.min_nodes = positive(arguments, "min-nodes-per-cluster", kMostClusters);
  if (arguments.count("clusters") != 0) options.clusters = positive(arguments, "clusters", kMostClusters);
  if (options.objective == Objective::kLatency && options.clusters.value_or(1) != 1)
    throw UsageError(
        fmt::format("--clusters {}: the objective latency always makes 1 cluster", *options.clusters));
  options.threads =
      arguments.count("threads") != 0 ? positive(arguments, "threads", kMostThreads) : usable_processors();
  if (arguments.count("time-limit") != 0) {
    options.seconds = arguments["time-limit"].as<double>();
    if (!std::isfinite(*options.seconds) || *options.seconds <= 0)
      throw UsageError(fmt::format("--time-limit {}: must be a number of seconds above 0", *options.seconds));
  }
  if (arguments.count("pin") != 0) {
    for (const std::string& pin : arguments["pin"].as<std::vector<std::string>>()) {
      if (!options.pins.insert(pin_of(pin, pool)).second)
        throw UsageError(fmt::format("--pin {}: the node is pinned twice", pin));
    }
  }
  options.progress = progress_display();
  return options;
}

}  // namespace rookery
