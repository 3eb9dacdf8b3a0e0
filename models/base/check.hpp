// Checks for what only a bug in Rookery can do. They stay on in release builds.
#pragma once

#include <stdexcept>

#include "models/base/libraries/format.hpp"

namespace rookery {

class BugError : public std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* file, int line, const char* condition, const std::string& message);

}  // namespace rookery

// ROOKERY_CHECK(a == b, "{} is not {}", a, b) throws BugError with place, condition and message.
#define ROOKERY_CHECK(condition, ...)                                                                  \
  do {                                                                                                 \
    if (!(condition)) ::rookery::fail_check(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)
