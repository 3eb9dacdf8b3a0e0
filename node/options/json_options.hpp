// The options --json and --progress-interval, which provider and launch have.
#pragma once

#include <optional>
#include <string>

#include "models/base/process/program.hpp"

namespace rookery {

// `what` is printed, e.g. "progress".
void add_json_options(ProgramOptions& options, const std::string& what);

// Seconds from one progress line of a node to its next, at least, where --json was given. UsageError for what
// is no such number.
std::optional<double> json_interval_of(const ProgramArguments& arguments);

// The option called `name`: seconds below a million, and above 0 where it may not be 0; else UsageError.
double seconds_of(const ProgramArguments& arguments, const std::string& name, bool may_be_zero);

}  // namespace rookery
