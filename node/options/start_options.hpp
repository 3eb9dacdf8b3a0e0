// The options --resume, --sync-from and --sync-optimizer, which several commands have.
#pragma once

#include <string>
#include <vector>

#include "models/base/process/program.hpp"
#include "trainer/checkpoint/reshard/start_choice.hpp"

namespace rookery {

struct StartHelp {
  const char* resume;
  const char* sync_from;
};
void add_start_options(ProgramOptions& options, const StartHelp& help);

// What was given. UsageError for what is no cluster's number, or --sync-optimizer alone.
StartChoice start_choice_of(const ProgramArguments& arguments);

// The same as arguments of a provider.
std::vector<std::string> start_arguments(const StartChoice& choice);

}  // namespace rookery
