#include "node/launch/child_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/stop_signals.hpp"

namespace rookery {
namespace {

constexpr std::size_t kMaxLine = 64U << 10;
constexpr int kCannotStart = 127;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw DataError(fmt::format("no pipe: {}", std::strerror(errno)));
    from = ends[0];
    to = ends[1];
    ::fcntl(from, F_SETFL, O_NONBLOCK);
  }
  int from = -1;
  int to = -1;
};

// In the child: only calls that are safe after fork().
[[noreturn]] void become(char* const* arguments, pid_t parent, int output, int errors) {
  ::setpgid(0, 0);
  accept_stop_signals();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kCannotStart);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  ::execv(arguments[0], arguments);
  const char* reason = std::strerror(errno);
  for (const char* part : {"cannot start ", static_cast<const char*>(arguments[0]), ": ", reason, "\n"}) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, part, std::strlen(part));
  }
  ::_exit(kCannotStart);
}

}  // namespace

LineReader::~LineReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void LineReader::read(const std::function<void(const std::string& line)>& on_line) {
  std::array<char, 4096> block{};
  while (descriptor_ >= 0) {
    const ssize_t size = ::read(descriptor_, block.data(), block.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) {
      ::close(descriptor_);
      descriptor_ = -1;
      if (!partial_.empty()) on_line(partial_);
      return;
    }
    for (const char c : std::string_view(block.data(), static_cast<std::size_t>(size))) {
      if (c == '\n') {
        on_line(partial_);
        partial_.clear();
      } else if (partial_.size() < kMaxLine) {
        partial_.push_back(c);
      }
    }
  }
}

ChildProcess::ChildProcess(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const Pipe output;
  const Pipe errors;
  output_.emplace(output.from);
  errors_.emplace(errors.from);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(arguments.data(), parent, output.to, errors.to);
  const int error = errno;
  ::close(output.to);
  ::close(errors.to);
  if (pid_ < 0) throw DataError(fmt::format("cannot start {}: {}", command.front(), std::strerror(error)));
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || code_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void ChildProcess::signal(int number) const {
  if (!code_) ::kill(pid_, number);
}

std::optional<int> ChildProcess::exit_code() {
  int status = 0;
  if (!code_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return code_;
}

}  // namespace rookery
