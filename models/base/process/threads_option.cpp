#include "models/base/process/threads_option.hpp"

#include <fmt/format.h>

#include "models/base/error.hpp"
#include "models/base/machine/processors.hpp"

namespace rookery {

void add_threads_option(ProgramOptions& options, int usual, const char* help) {
  namespace po = boost::program_options;
  const int threads = usual > 0 ? usual : usable_processors();
  options.add_options()("threads", po::value<int>()->default_value(threads)->value_name("N"), help);
}

int threads_of(const ProgramArguments& arguments) {
  constexpr int kMostThreads = 1024;
  const int threads = arguments["threads"].as<int>();
  if (threads < 1 || threads > kMostThreads)
    throw UsageError(fmt::format("--threads {}: from 1 to {}", threads, kMostThreads));
  return threads;
}

}  // namespace rookery
