#include "trainer/storage/random_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/fnv.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/storage/positioned_read.hpp"

namespace rookery {
namespace {

class LocalFile : public RandomFile {
 public:
  explicit LocalFile(const std::filesystem::path& path)
      // A pipe in the place of a file must not be waited for.
      : RandomFile(path.string()), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat status {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
      const int reason = errno;
      close();
      throw DataError(fmt::format("{}: cannot read: {}", name(), std::strerror(reason)));
    }
    if (!S_ISREG(status.st_mode)) {
      close();
      throw DataError(fmt::format("{}: cannot read: is no file", name()));
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
    Fnv1a version;
    version.add_unit(size_);
    version.add_unit(static_cast<std::uint64_t>(status.st_mtim.tv_sec));
    version.add_unit(static_cast<std::uint64_t>(status.st_mtim.tv_nsec));
    version_ = version.value();
  }
  ~LocalFile() override { close(); }
  LocalFile(const LocalFile&) = delete;
  LocalFile& operator=(const LocalFile&) = delete;

  std::uint64_t size() const override { return size_; }
  std::uint64_t version() const override { return version_; }
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    read_at(descriptor_, offset, into, name());
  }

 private:
  void close() const {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  int descriptor_;
  std::uint64_t size_ = 0;
  std::uint64_t version_ = 0;
};

class PartOfFile : public RandomFile {
 public:
  PartOfFile(SharedFile whole, std::uint64_t offset, std::uint64_t bytes, std::string name)
      : RandomFile(std::move(name)), whole_(std::move(whole)), offset_(offset), bytes_(bytes) {
    ROOKERY_CHECK(offset <= whole_->size() && bytes <= whole_->size() - offset, "{} bytes at {} of {}", bytes,
                  offset, whole_->size());
  }

  std::uint64_t size() const override { return bytes_; }
  std::uint64_t version() const override { return whole_->version(); }
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    ROOKERY_CHECK(offset <= bytes_ && into.size() <= bytes_ - offset, "{} bytes at {} of {}", into.size(),
                  offset, bytes_);
    whole_->read(offset_ + offset, into);
  }
  bool is_far() const override { return whole_->is_far(); }

 private:
  SharedFile whole_;
  std::uint64_t offset_, bytes_;
};

}  // namespace

void read_at(int descriptor, std::uint64_t offset, std::span<std::byte> into, const std::string& name) {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw DataError(fmt::format("{}: cannot read: {}", name, std::strerror(errno)));
    if (got == 0)
      throw DataError(fmt::format("{}: ends at {} bytes: it became shorter while it was read", name, offset));
    offset += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

SharedFile open_local_file(const std::filesystem::path& path) {
  return std::make_shared<LocalFile>(path);
}

SharedFile part_of_file(SharedFile whole, std::uint64_t offset, std::uint64_t bytes, std::string name) {
  return std::make_shared<PartOfFile>(std::move(whole), offset, bytes, std::move(name));
}

std::string read_whole(const RandomFile& file, std::uint64_t most) {
  if (file.size() > most)
    throw DataError(fmt::format("{}: has {} bytes, more than {}", file.name(), file.size(), most));
  std::string content(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(content)));
  return content;
}

}  // namespace rookery
