#include "node/options/json_options.hpp"

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {

void add_json_options(ProgramOptions& options, const std::string& what) {
  namespace po = boost::program_options;
  options.add_options()("json", ("print " + what + " as one JSON object a line").c_str())(
      "progress-interval", po::value<double>()->default_value(1, "1"),
      "with --json: seconds from one progress line of a node to the next, at least; 0: a line a step");
}

std::optional<double> json_interval_of(const ProgramArguments& arguments) {
  const double seconds = seconds_of(arguments, "progress-interval", true);
  if (arguments.count("json") == 0) return std::nullopt;
  return seconds;
}

double seconds_of(const ProgramArguments& arguments, const std::string& name, bool may_be_zero) {
  constexpr double kMost = 1e6;
  const auto seconds = arguments[name].as<double>();
  if (seconds < kMost && (seconds > 0 || (may_be_zero && seconds == 0))) return seconds;
  throw UsageError(fmt::format("--{} {}: a number of seconds {} 0, below {:.0f}", name, seconds,
                               may_be_zero ? "from" : "above", kMost));
}

}  // namespace rookery
