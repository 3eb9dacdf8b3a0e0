// Helpers that the tests of file formats share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {

constexpr std::uint64_t kAnySize = 1ULL << 30;

// Without waiting for the disk, as write_file() does and truncating a file may: these tests write
// thousands of files.
inline void overwrite(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::remove(path);
  std::ofstream stream(path, std::ios::binary);
  stream << bytes;
  if (!stream.flush()) throw std::runtime_error("cannot write " + path.string());
}

// Runs `action`, which must throw a DataError, and returns its message.
template <typename Action>
std::string data_error(const Action& action) {
  try {
    action();
  } catch (const DataError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no DataError";
  return {};
}

}  // namespace rookery
