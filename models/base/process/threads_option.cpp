#include "models/base/process/threads_option.hpp"

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {

void add_threads_option(ProgramOptions& options, const char* help) {
  namespace po = boost::program_options;
  options.add_options()("threads", po::value<int>()->value_name("N"), help);
}

std::optional<int> threads_of(const ProgramArguments& arguments) {
  constexpr int kMostThreads = 1024;
  if (arguments.count("threads") == 0) return std::nullopt;
  const int threads = arguments["threads"].as<int>();
  if (threads < 1 || threads > kMostThreads)
    throw UsageError(fmt::format("--threads {}: from 1 to {}", threads, kMostThreads));
  return threads;
}

}  // namespace rookery
