#include "node/options/start_options.hpp"

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {

void add_start_options(ProgramOptions& options, const StartHelp& help) {
  namespace po = boost::program_options;
  options.add_options()("resume", help.resume)("sync-from", po::value<int>()->value_name("CLUSTER"),
                                               help.sync_from)(
      "sync-optimizer",
      "with --sync-from: the optimizer's state, too, instead of one that begins anew; needed where gradients "
      "are averaged");
}

StartChoice start_choice_of(const ProgramArguments& arguments) {
  StartChoice choice{.resume = arguments.count("resume") != 0,
                     .sync_optimizer = arguments.count("sync-optimizer") != 0};
  if (arguments.count("sync-from") != 0) choice.sync_from = arguments["sync-from"].as<int>();
  if (choice.sync_from && *choice.sync_from < 0)
    throw UsageError(fmt::format("--sync-from {}: the number of a cluster, from 0 on", *choice.sync_from));
  if (choice.sync_optimizer && !choice.sync_from)
    throw UsageError("--sync-optimizer: whose? Give --sync-from CLUSTER, too");
  return choice;
}

std::vector<std::string> start_arguments(const StartChoice& choice) {
  std::vector<std::string> arguments;
  if (choice.resume) arguments.emplace_back("--resume");
  if (choice.sync_from) {
    arguments.emplace_back("--sync-from");
    arguments.push_back(std::to_string(*choice.sync_from));
  }
  if (choice.sync_optimizer) arguments.emplace_back("--sync-optimizer");
  return arguments;
}

}  // namespace rookery
