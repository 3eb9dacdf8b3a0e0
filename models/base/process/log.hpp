// Logging: spdlog to standard error, one line an event. Programs call init_logging once; libraries
// call spdlog::info and its kin.
#pragma once

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>

namespace rookery {

// Lines begin with time and `who` (a program or node name). The level is that of the last set_log_level();
// until then it is $ROOKERY_LOG's, by default info. UsageError where that is no level.
void init_logging(std::string_view who);

// trace, debug, info, warn, error or off: of the program's logger, and of those that init_logging() makes
// later. UsageError, which begins with `from` (an option or a variable), for other names.
void set_log_level(const std::string& name, std::string_view from);

}  // namespace rookery
