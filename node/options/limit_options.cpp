#include "node/options/limit_options.hpp"

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

constexpr double kMostMbps = 1e6;
constexpr double kMostMilliseconds = 60'000;

}  // namespace

void add_limit_options(ProgramOptions& options) {
  namespace po = boost::program_options;
  options.add_options()(
      "limit-mbps", po::value<double>()->value_name("MBPS"),
      "for trying a slow network on a fast one: a machine sends no more than so many Mbit/s to all "
      "others together, e.g. 100")(
      "add-latency-ms", po::value<double>()->value_name("MS"),
      "likewise: what it sends arrives so many milliseconds later than it would, e.g. 25");
}

NetworkLimits limits_of(const ProgramArguments& arguments) {
  NetworkLimits limits;
  if (arguments.count("limit-mbps") != 0) {
    limits.mbps = arguments["limit-mbps"].as<double>();
    if (!(*limits.mbps > 0 && *limits.mbps <= kMostMbps))
      throw UsageError(
          fmt::format("--limit-mbps {}: Mbit/s above 0, up to {:.0f}, e.g. 100", *limits.mbps, kMostMbps));
  }
  if (arguments.count("add-latency-ms") != 0) {
    const auto milliseconds = arguments["add-latency-ms"].as<double>();
    if (!(milliseconds >= 0 && milliseconds <= kMostMilliseconds))
      throw UsageError(fmt::format("--add-latency-ms {}: milliseconds from 0 to {:.0f}, e.g. 25",
                                   milliseconds, kMostMilliseconds));
    limits.latency = std::chrono::microseconds(static_cast<std::int64_t>(1000 * milliseconds));
  }
  return limits;
}

std::vector<std::string> limit_arguments(const NetworkLimits& limits) {
  std::vector<std::string> arguments;
  if (limits.mbps) {
    arguments.emplace_back("--limit-mbps");
    arguments.push_back(fmt::format("{}", *limits.mbps));
  }
  if (limits.latency.count() > 0) {
    arguments.emplace_back("--add-latency-ms");
    arguments.push_back(fmt::format("{}", static_cast<double>(limits.latency.count()) / 1000));
  }
  return arguments;
}

}  // namespace rookery
