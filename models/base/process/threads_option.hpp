// The option --threads, which several commands have.
#pragma once

#include "models/base/process/program.hpp"

namespace rookery {

// Threads for arithmetic. `usual`: where it is not given; 0: as many as the process may use processors.
void add_threads_option(ProgramOptions& options, int usual, const char* help);

// Returns the number given, or else the usual one. UsageError for one that is no number of threads.
int threads_of(const ProgramArguments& arguments);

}  // namespace rookery
