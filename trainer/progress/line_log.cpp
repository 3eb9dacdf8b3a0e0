#include "trainer/progress/line_log.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/files/file_calls.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

constexpr std::size_t kMostWaiting = 1U << 20;

}  // namespace

LineLog::LineLog(std::filesystem::path path, std::uint64_t reserved) : path_(std::move(path)) {
  std::error_code code;
  if (std::filesystem::exists(path_, code)) {
    std::filesystem::rename(path_, path_.string() + ".1", code);
  }
  if (code)
    throw DataError(fmt::format("{}: cannot keep the older file: {}", path_.string(), code.message()));
  open(O_TRUNC, reserved);
}

LineLog::LineLog(std::filesystem::path path, std::uint64_t reserved, std::int64_t lines)
    : path_(std::move(path)) {
  std::ifstream before(path_);
  for (std::string line; lines_ < lines && std::getline(before, line) && !before.eof(); ++lines_)
    size_ += line.size() + 1;
  whole_ = size_;
  if (lines_ < lines)
    spdlog::warn("{} has {} lines of the {} that the run has written until here: it goes on behind them",
                 path_.string(), lines_, lines);
  open(0, size_ + reserved);
  if (file_calls().ftruncate(descriptor_, static_cast<off_t>(size_)) == 0 &&
      ::lseek(descriptor_, static_cast<off_t>(size_), SEEK_SET) >= 0)
    return;
  const int reason = errno;
  ::close(descriptor_);
  throw DataError(
      fmt::format("{}: cannot go on behind line {}: {}", path_.string(), lines_, std::strerror(reason)));
}

void LineLog::open(int flags, std::uint64_t reserved) {
  descriptor_ = file_calls().open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
  if (descriptor_ < 0)
    throw DataError(fmt::format("{}: cannot create: {}", path_.string(), std::strerror(errno)));
  // Beyond the end of the file, so that readers see lines only.
  if (reserved == 0 ||
      file_calls().fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(reserved)) == 0 ||
      (errno != ENOSPC && errno != EDQUOT && errno != EFBIG))
    return;
  const int reason = errno;
  ::close(descriptor_);
  throw DataError(
      fmt::format("{}: no room for {} bytes: {}", path_.string(), reserved, std::strerror(reason)));
}

LineLog::~LineLog() {
  if (!waiting_.empty() && !hand_on()) {
    const auto waiting = std::ranges::count(waiting_, '\n');
    spdlog::warn("{} ends with line {}; the {} after it could not be written and are lost", path_.string(),
                 lines_, waiting + left_out_);
  } else if (left_out_ > 0) {
    spdlog::warn("{} ends with line {}; the {} after it are lost", path_.string(), lines_, left_out_);
  }
  // Half a line, and the room that was not needed.
  [[maybe_unused]] const int ignored = file_calls().ftruncate(descriptor_, static_cast<off_t>(whole_));
  ::close(descriptor_);
}

void LineLog::write(std::string_view line) {
  if (left_out_ > 0 || waiting_.size() + line.size() >= kMostWaiting) {
    ++left_out_;
  } else {
    waiting_.append(line) += '\n';
  }
  if (hand_on() || std::exchange(has_warned_, true)) return;
  spdlog::warn("{}: cannot write: {}: training goes on, and the lines from {} on wait in memory for room",
               path_.string(), std::strerror(errno), lines_ + 1);
}

// Writes what waits, as far as there is room; errno is the reason where there is none.
bool LineLog::hand_on() {
  while (!waiting_.empty()) {
    const ssize_t count = file_calls().write(descriptor_, waiting_.data(), waiting_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    const std::string_view written(waiting_.data(), static_cast<std::size_t>(count));
    if (const auto end = written.rfind('\n'); end != std::string_view::npos) whole_ = size_ + end + 1;
    lines_ += std::ranges::count(written, '\n');
    size_ += written.size();
    waiting_.erase(0, written.size());
  }
  return true;
}

}  // namespace rookery
