#include "clusterize/simulation_arguments.hpp"

#include <algorithm>
#include <optional>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/parse.hpp"

namespace rookery {
namespace {

namespace po = boost::program_options;

constexpr int kMostEpochs = 1'000'000;
constexpr double kMostFailuresPerHour = 3600;
constexpr double kMostSlowdown = 1e6;
constexpr double kLongestRestart = 86'400;

// "0.05:3": with a probability of 5 % 3 times as slowly.
void set_stragglers(const std::string& text, SimulationOptions& options) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto share = number_from<double>(std::string_view(text).substr(0, colon));
  const auto factor = number_from<double>(std::string_view(text).substr(std::min(colon + 1, text.size())));
  if (!share || !factor || !(*share >= 0 && *share <= 1) || !(*factor >= 1 && *factor <= kMostSlowdown)) {
    throw UsageError(
        fmt::format("--stragglers {}: must be PROBABILITY:FACTOR, from 0 to 1 and from 1 to {}, e.g. 0.05:3",
                    text, kMostSlowdown));
  }
  options.straggler_share = *share;
  options.straggler_factor = *factor;
}

double number(const ProgramArguments& arguments, const std::string& name, double least, double most) {
  const auto value = arguments[name].as<double>();
  if (!(value >= least && value <= most))
    throw UsageError(fmt::format("--{} {}: must be from {} to {}", name, value, least, most));
  return value;
}

}  // namespace

void add_simulation_options(ProgramOptions& options) {
  options.add_options()(
      "simulate",
      "simulate the training run, and show how long it takes, what every node and link does, "
      "and how a step compares with the prediction");
  options.add_options()("epochs", po::value<int>()->value_name("N"),
                        "with --simulate: number of epochs, instead of the one in train.json");
  options.add_options()("stragglers", po::value<std::string>()->value_name("PROBABILITY:FACTOR"),
                        "with --simulate: in every step each node computes this many times slower with this "
                        "probability, e.g. 0.05:3");
  options.add_options()("failures", po::value<double>()->value_name("F"),
                        "with --simulate: random failures per node and hour. Each ends the run: the other "
                        "nodes notice it after peer_timeout_seconds, and training goes on from the last "
                        "checkpoint (checkpoint_every), or from the first step where none are made");
  options.add_options()("restart", po::value<double>()->value_name("SECONDS")->default_value(60),
                        "with --failures: time from noticing a failure until all providers train again");
}

std::optional<SimulationOptions> simulation_options(const ProgramArguments& arguments, std::uint64_t seed) {
  if (!arguments["restart"].defaulted() && arguments.count("failures") == 0)
    throw UsageError("--restart needs --failures");
  if (arguments.count("simulate") == 0) {
    for (const char* name : {"epochs", "stragglers", "failures"}) {
      if (arguments.count(name) != 0) throw UsageError(fmt::format("--{} needs --simulate", name));
    }
    return std::nullopt;
  }
  SimulationOptions options{.seed = seed};
  if (arguments.count("epochs") != 0) {
    options.epochs = arguments["epochs"].as<int>();
    if (*options.epochs < 1 || *options.epochs > kMostEpochs)
      throw UsageError(fmt::format("--epochs {}: must be from 1 to {}", *options.epochs, kMostEpochs));
  }
  if (arguments.count("stragglers") != 0) set_stragglers(arguments["stragglers"].as<std::string>(), options);
  if (arguments.count("failures") != 0)
    options.failures_per_hour = number(arguments, "failures", 0, kMostFailuresPerHour);
  options.restart_seconds = number(arguments, "restart", 0, kLongestRestart);
  return options;
}

}  // namespace rookery
