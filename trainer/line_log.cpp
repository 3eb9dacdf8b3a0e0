#include "trainer/line_log.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "models/base/error.hpp"

namespace rookery {

LineLog::LineLog(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code code;
  if (std::filesystem::exists(path_, code)) {
    std::filesystem::rename(path_, path_.string() + ".1", code);
  }
  if (code)
    throw DataError(fmt::format("{}: cannot keep the older file: {}", path_.string(), code.message()));
  stream_.open(path_, std::ios::trunc);
  if (!stream_) throw DataError(fmt::format("{}: cannot create: {}", path_.string(), std::strerror(errno)));
}

void LineLog::write(std::string_view line) {
  stream_ << line << '\n' << std::flush;
  if (!stream_) throw DataError(fmt::format("{}: cannot write: {}", path_.string(), std::strerror(errno)));
}

}  // namespace rookery
