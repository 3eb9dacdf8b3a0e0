// The option --threads, which several commands have.
#pragma once

#include <optional>

#include "models/base/process/program.hpp"

namespace rookery {

// Threads for arithmetic; `help` says how many there are without it.
void add_threads_option(ProgramOptions& options, const char* help);

// Returns the number given, if any. UsageError for one that is no number of threads.
std::optional<int> threads_of(const ProgramArguments& arguments);

}  // namespace rookery
