// Runs a Python program on files that a test wrote; skips the test where Python lacks a module.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "models/base/libraries/format.hpp"
#include "tests/support/repository.hpp"

namespace rookery {

inline bool python_has(const std::string& python, const std::string& module) {
  return std::system(fmt::format("'{}' -c 'import {}' > /dev/null 2>&1", python, module).c_str()) == 0;
}

inline int run_python(const std::string& python, const std::string& program, const std::string& arguments) {
  return std::system(
      fmt::format("'{}' '{}/tests/models/io/{}' {}", python, kRepository.string(), program, arguments)
          .c_str());
}

constexpr const char* kSystemPython = "/usr/bin/python3";

}  // namespace rookery

#define ROOKERY_NEEDS_PYTHON(python, module)                                                                 \
  do {                                                                                                       \
    if (!rookery::python_has((python), (module))) GTEST_SKIP() << (python) << " cannot import " << (module); \
  } while (false)
