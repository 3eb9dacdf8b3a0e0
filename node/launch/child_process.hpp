// A program started by this one, with its output read line by line without ever blocking.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rookery {

// One end of a pipe that a child writes to.
class LineReader {
 public:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  int descriptor() const { return descriptor_; }  // -1: ended
  // Hands over every whole line that is there, and at the end what is left. Lines longer than 64 KiB
  // are cut.
  void read(const std::function<void(const std::string& line)>& on_line);

 private:
  int descriptor_;
  std::string partial_;
};

// Runs in a process group of its own, so that Ctrl-C reaches it only through this program, and gets
// SIGTERM when this program dies. One thread.
class ChildProcess {
 public:
  // DataError when the program cannot be started.
  explicit ChildProcess(const std::vector<std::string>& command);
  // Kills and reaps it if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  LineReader& standard_output() { return *output_; }
  LineReader& standard_error() { return *errors_; }
  void signal(int number) const;
  // Exit code as a shell gives it (128+n after signal n), once it has ended.
  std::optional<int> exit_code();

 private:
  pid_t pid_ = -1;
  std::optional<LineReader> output_;
  std::optional<LineReader> errors_;
  std::optional<int> code_;
};

}  // namespace rookery
