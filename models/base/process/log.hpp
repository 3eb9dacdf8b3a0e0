// Logging: spdlog to standard error, one line an event. Programs call init_logging once; libraries
// call spdlog::info and its kin.
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

namespace rookery {

// Lines begin with time and `who` (a program or node name). Level from $ROOKERY_LOG (trace, debug,
// info, warn, error, off), by default info.
void init_logging(std::string_view who);

}  // namespace rookery
