// A text file that grows by a line at a time while people watch it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace rookery {

// One thread.
class LineLog {
 public:
  // A new, empty file; one that was there is kept as PATH.1. Takes the room for `reserved` bytes, where the
  // file system can do that. DataError naming the file when it cannot be made or the room is not there.
  explicit LineLog(std::filesystem::path path, std::uint64_t reserved = 0);
  // Goes on behind the first `lines` lines of a file that is there; what follows them is gone. A file that
  // has fewer gets a warning.
  LineLog(std::filesystem::path path, std::uint64_t reserved, std::int64_t lines);
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  // Appends a line and hands it to the system. A line that cannot be written is no reason to end a training:
  // it waits in memory for room, at most a MiB of them do, and the log warns; the file never has a gap or
  // half a line.
  void write(std::string_view line);

 private:
  void open(int flags, std::uint64_t reserved);
  bool hand_on();

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string waiting_;        // not written yet; may begin within a line
  std::uint64_t size_ = 0;     // of the file
  std::uint64_t whole_ = 0;    // where its last whole line ends
  std::int64_t lines_ = 0;     // whole ones
  std::int64_t left_out_ = 0;  // lines that did not find room in memory, and all after them
  bool has_warned_ = false;
};

}  // namespace rookery
