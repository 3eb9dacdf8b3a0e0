#include "trainer/data/byte_source.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "models/base/error.hpp"

namespace rookery {
namespace {

constexpr std::uint64_t kMaxDeflateRatio = 1032;  // a 258-byte match in two bits
constexpr unsigned kBufferBytes = 1U << 16;

}  // namespace

struct ByteSource::Stream {
  gzFile file = nullptr;
  ~Stream() {
    if (file != nullptr) gzclose_r(file);
  }
};

ByteSource::ByteSource(const std::filesystem::path& path, std::uint64_t max_bytes)
    : path_(path), max_bytes_(max_bytes), stream_(std::make_unique<Stream>()) {
  std::error_code code;
  file_bytes_ = std::filesystem::file_size(path, code);
  if (code) throw DataError(fmt::format("{}: cannot read: {}", path.string(), code.message()));
  stream_->file = gzopen(path.c_str(), "rb");
  if (stream_->file == nullptr) {
    throw DataError(fmt::format("{}: cannot read: {}", path.string(), std::strerror(errno)));
  }
  gzbuffer(stream_->file, kBufferBytes);
  const bool is_plain = gzdirect(stream_->file) != 0;
  if (is_plain == (path.extension() == ".gz")) {
    throw DataError(fmt::format(
        "{}: {}", path.string(),
        is_plain ? "its name says gzip, its content does not" : "is gzip: its name must end in .gz"));
  }
}

ByteSource::~ByteSource() = default;

std::size_t ByteSource::read(std::span<std::byte> into) {
  std::size_t filled = 0;
  while (filled < into.size()) {
    const auto wanted = static_cast<unsigned>(std::min<std::size_t>(into.size() - filled, 1U << 20));
    const int got = gzread(stream_->file, into.data() + filled, wanted);
    int code = Z_OK;
    const char* reason = gzerror(stream_->file, &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      throw DataError(fmt::format("{}: after {} bytes: {}: an incomplete copy?", path_.string(),
                                  offset_ + static_cast<std::uint64_t>(std::max(got, 0)), reason));
    }
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
    offset_ += static_cast<std::uint64_t>(got);
    if (offset_ > max_bytes_) {
      throw DataError(fmt::format("{}: holds more than the {} bytes that a data set may have", path_.string(),
                                  max_bytes_));
    }
  }
  return filled;
}

std::uint64_t ByteSource::capacity() const {
  const std::uint64_t ratio = path_.extension() == ".gz" ? kMaxDeflateRatio : 1;
  return std::min(file_bytes_ * ratio, max_bytes_);
}

}  // namespace rookery
