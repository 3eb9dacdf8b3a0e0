// A file that a fuzz target fills with each of its inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "tests/support/scratch_folder.hpp"

namespace rookery {

class ScratchFile {
 public:
  explicit ScratchFile(const std::string& name) : path_(folder_.path() / name) {}
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path folder() const { return folder_.path(); }

  // Truncating a file may wait for the disk, a new one does not.
  void fill(const std::string& bytes) const {
    std::filesystem::remove(path_);
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  void fill(const std::uint8_t* data, std::size_t size) const {
    fill(std::string(reinterpret_cast<const char*>(data), size));
  }

 private:
  ScratchFolder folder_;
  std::filesystem::path path_;
};

}  // namespace rookery
