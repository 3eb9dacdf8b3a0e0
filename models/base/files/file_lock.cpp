#include "models/base/files/file_lock.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include "models/base/libraries/format.hpp"
#include "models/base/process/stop_signals.hpp"

namespace rookery {
namespace {

namespace fs = std::filesystem;

void warn(const fs::path& path, int reason) {
  spdlog::warn("{}: cannot be locked: {}: let no other process write there meanwhile", path.string(),
               std::strerror(reason));
}

// Does the process hold a lock on the file by one of its descriptors? Waiting for one is no holding.
bool holds_lock(const fs::path& process, const struct stat& file) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(process / "fd", error)) {
    struct stat other {};
    if (::stat(entry.path().c_str(), &other) != 0 || other.st_dev != file.st_dev ||
        other.st_ino != file.st_ino)
      continue;
    std::ifstream info(process / "fdinfo" / entry.path().filename());
    for (std::string line; std::getline(info, line);) {
      if (line.starts_with("lock:")) return true;
    }
  }
  return false;
}

}  // namespace

FileLock::FileLock(fs::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  // What is not there is nobody's; who needs the folder will miss it.
  if (descriptor_ < 0 && errno != ENOENT) warn(path_, errno);
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FileLock::FileLock(FileLock&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

bool FileLock::try_take(Kind kind) {
  if (descriptor_ < 0 || ::flock(descriptor_, (kind == Kind::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0)
    return true;
  if (errno == EWOULDBLOCK || errno == EINTR) return false;
  warn(path_, errno);  // network file systems may have no locks
  ::close(std::exchange(descriptor_, -1));
  return true;
}

void FileLock::take(Kind kind, const std::function<void(const std::string& holders)>& on_waiting) {
  constexpr std::chrono::milliseconds kAgain{20};
  if (try_take(kind)) return;
  on_waiting(holders());
  while (!try_take(kind)) {
    throw_if_stopped();
    std::this_thread::sleep_for(kAgain);
  }
}

std::string FileLock::holders() const {
  struct stat file {};
  std::string names;
  if (descriptor_ < 0 || ::fstat(descriptor_, &file) != 0) return names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string number = entry.path().filename().string();
    if (number.find_first_not_of("0123456789") != std::string::npos || !holds_lock(entry.path(), file))
      continue;
    std::string command;
    std::getline(std::ifstream(entry.path() / "comm"), command);
    names += fmt::format("{}process {} ({})", names.empty() ? "" : ", ", number, command);
  }
  return names.empty() ? "a process of another user or machine" : names;
}

}  // namespace rookery
