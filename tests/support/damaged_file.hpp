// Files as accidents leave them.
#pragma once

#include <filesystem>
#include <fstream>

namespace rookery {

// One bit of the file, `at` bytes from its end, is another one.
inline void flip_bit(const std::filesystem::path& path, std::streamoff at_from_end = 1) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.exceptions(std::ios::failbit | std::ios::badbit);
  file.seekg(-at_from_end, std::ios::end);
  const std::streampos place = file.tellg();
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(place);
  file.put(byte);
}

}  // namespace rookery
