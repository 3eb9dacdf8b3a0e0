// A text file that grows by a line at a time while people watch it.
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

namespace rookery {

// One thread. Every error is a DataError that names the file.
class LineLog {
 public:
  // A new, empty file; one that was there is kept as PATH.1.
  explicit LineLog(std::filesystem::path path);
  // Appends a line and hands it to the system.
  void write(std::string_view line);

 private:
  std::filesystem::path path_;
  std::ofstream stream_;
};

}  // namespace rookery
