#include "models/base/files/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "models/base/error.hpp"
#include "models/base/files/file_calls.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {

namespace {

std::string own_descriptor(int descriptor) {
  return fmt::format("/proc/self/fd/{}", descriptor);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(path_.string() + fmt::format(".tmp-{}", ::getpid())) {
  // A file without a name vanishes with its process, but gets a name through /proc only.
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  descriptor_ = file_calls().open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0644);
  if (descriptor_ >= 0 && ::access(own_descriptor(descriptor_).c_str(), F_OK) == 0) return;
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = file_calls().open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("cannot create");
  is_named_ = true;
}

AtomicFile::AtomicFile(std::filesystem::path path, std::uint64_t reserved) : AtomicFile(std::move(path)) {
  reserved_ = reserved;
  if (reserved == 0) return;
  int code = EINTR;
  while (code == EINTR) code = file_calls().posix_fallocate(descriptor_, 0, static_cast<off_t>(reserved));
  if (code == 0 || code == EOPNOTSUPP || code == EINVAL) return;  // a file system that reserves nothing
  errno = code;
  fail(fmt::format("no room for its {} bytes", reserved));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (is_named_) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(std::string_view doing) const {
  const int code = errno;
  throw DataError(fmt::format("{}: {}: {}", path_.string(), doing, std::strerror(code)));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = file_calls().write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write");
    bytes = bytes.subspan(written);
    written_ += static_cast<std::uint64_t>(written);
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::commit() {
  if (written_ < reserved_ && file_calls().ftruncate(descriptor_, static_cast<off_t>(written_)) != 0)
    fail("cannot shorten");
  if (file_calls().fsync(descriptor_) != 0) fail("cannot flush");
  if (!is_named_) {
    ::unlink(temporary_.c_str());  // of a process that was killed and had our number
    if (::linkat(AT_FDCWD, own_descriptor(descriptor_).c_str(), AT_FDCWD, temporary_.c_str(),
                 AT_SYMLINK_FOLLOW) != 0)
      fail("cannot name it");
    is_named_ = true;
  }
  if (file_calls().rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot rename into place");
  ::close(descriptor_);
  descriptor_ = -1;
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  std::error_code code;
  const std::uintmax_t size = std::filesystem::file_size(path, code);
  if (code) throw DataError(fmt::format("{}: cannot read: {}", path.string(), code.message()));
  if (size > max_bytes) {
    throw DataError(fmt::format("{}: {} bytes, more than the {} that such a file may have", path.string(),
                                size, max_bytes));
  }
  std::ifstream stream(path, std::ios::binary);
  std::string text(size, '\0');
  if (!stream || !stream.read(text.data(), static_cast<std::streamsize>(size))) {
    throw DataError(fmt::format("{}: cannot read", path.string()));
  }
  return text;
}

void link_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code code;
  std::filesystem::create_hard_link(from, to, code);
  if (code) std::filesystem::copy_file(from, to, code);
  if (code)
    throw DataError(
        fmt::format("{}: cannot be copied to {}: {}", from.string(), to.string(), code.message()));
}

void flush_folder(const std::filesystem::path& path) {
  const auto fail = [&] {
    throw DataError(fmt::format("{}: cannot flush the folder: {}", path.string(), std::strerror(errno)));
  };
  const int descriptor = file_calls().open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (descriptor < 0) fail();
  const int code = file_calls().fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  errno = code;
  if (code != 0 && code != EINVAL) fail();
}

void make_directories(const std::filesystem::path& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) throw DataError(fmt::format("{}: cannot make the folder: {}", path.string(), code.message()));
}

}  // namespace rookery
