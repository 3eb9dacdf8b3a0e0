#include "trainer/storage/temporary_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/parallel.hpp"
#include "trainer/storage/positioned_read.hpp"

namespace rookery {
namespace {

std::string temporary_folder() {
  const char* given = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return given != nullptr && *given != '\0' ? given : "/var/tmp";
}

}  // namespace

TemporaryFile::TemporaryFile(std::string name) : RandomFile(std::move(name)) {
  const std::string folder = temporary_folder();
  descriptor_ = ::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
  if (descriptor_ < 0) {  // a file system that has no files without names
    std::string path = folder + "/rookery_XXXXXX";
    descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
    if (descriptor_ >= 0) ::unlink(path.c_str());
  }
  if (descriptor_ < 0) {
    throw DataError(
        fmt::format("{}: cannot write to {}: {}: set TMPDIR to a folder with room for its content",
                    RandomFile::name(), folder, std::strerror(errno)));
  }
}

TemporaryFile::~TemporaryFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void TemporaryFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw DataError(
          fmt::format("{}: cannot be kept in {}: {}: set TMPDIR to a folder with room for its content",
                      name(), temporary_folder(), std::strerror(errno)));
    }
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void TemporaryFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  read_at(descriptor_, offset, into, name());
}

std::filesystem::path TemporaryFile::path() const {
  return fmt::format("/proc/self/fd/{}", descriptor_);
}

std::filesystem::path make_temporary_folder() {
  std::string path = temporary_folder() + "/rookery_XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    throw DataError(fmt::format("{}: cannot make a folder there: {}: set TMPDIR to a folder with room",
                                temporary_folder(), std::strerror(errno)));
  }
  return path;
}

std::shared_ptr<const TemporaryFile> fetched(const RandomFile& file) {
  auto copy = std::make_shared<TemporaryFile>(file.name());
  const std::uint64_t size = file.size();
  const std::uint64_t pieces = (size + kFarPiece - 1) / kFarPiece;
  parallel_for(pieces, file.is_far() ? kFarReadings : 1, [&](std::uint64_t i) {
    std::vector<std::byte> piece(std::min<std::uint64_t>(kFarPiece, size - i * kFarPiece));
    file.read(i * kFarPiece, piece);
    copy->write(i * kFarPiece, piece);
  });
  copy->set_size(size);
  return copy;
}

}  // namespace rookery
