#include "trainer/storage/archive.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/fnv.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"
#include "trainer/storage/byte_source.hpp"
#include "trainer/storage/temporary_file.hpp"

namespace rookery {
namespace {

constexpr std::uint64_t kTarBlock = 512;

// What libarchive reads from: any place of a file, or the front of one that is inflated on the way.
class Input {
 public:
  Input(SharedFile file, std::uint64_t most) : file_(std::move(file)) {
    if (is_gzip_name(file_->name())) inflated_.emplace(file_, most);
    buffer_.resize(file_->is_far() ? kFarPiece : kNearBytes);
  }

  static la_ssize_t on_read(archive* reader, void* self, const void** bytes) {
    return static_cast<Input*>(self)->guarded(reader, [&](Input& input) { return input.read(bytes); });
  }
  static la_int64_t on_skip(archive* reader, void* self, la_int64_t bytes) {
    return static_cast<Input*>(self)->guarded(reader, [&](Input& input) { return input.skip(bytes); });
  }
  static la_int64_t on_seek(archive* reader, void* self, la_int64_t offset, int origin) {
    return static_cast<Input*>(self)->guarded(reader,
                                              [&](Input& input) { return input.seek(offset, origin); });
  }

  bool can_seek() const { return !inflated_.has_value(); }
  // What went wrong below the library.
  void rethrow() const {
    if (problem_) std::rethrow_exception(problem_);
  }
  // Reads what follows an archive's end, so that what checks the whole of a file has seen it.
  void drain() {
    const void* bytes = nullptr;
    while (inflated_ && read(&bytes) > 0) {
    }
  }

 private:
  static constexpr std::size_t kNearBytes = 64U << 10;

  // Exceptions must not pass through the library, which is C.
  template <typename Action>
  la_int64_t guarded(archive* reader, const Action& action) {
    try {
      return action(*this);
    } catch (...) {
      problem_ = std::current_exception();
      archive_set_error(reader, EIO, "unreadable");  // NOLINT(*-vararg)
      return ARCHIVE_FATAL;
    }
  }

  la_int64_t read(const void** bytes) {
    *bytes = buffer_.data();
    if (inflated_) return static_cast<la_int64_t>(inflated_->read(buffer_));
    const std::size_t count = std::min<std::uint64_t>(buffer_.size(), file_->size() - at_);
    file_->read(at_, std::span(buffer_).first(count));
    at_ += count;
    return static_cast<la_int64_t>(count);
  }
  la_int64_t skip(la_int64_t bytes) {
    if (!can_seek()) return 0;
    const std::uint64_t skipped = std::min<std::uint64_t>(
        static_cast<std::uint64_t>(std::max<la_int64_t>(bytes, 0)), file_->size() - at_);
    at_ += skipped;
    return static_cast<la_int64_t>(skipped);
  }
  la_int64_t seek(la_int64_t offset, int origin) {
    const auto size = static_cast<la_int64_t>(file_->size());
    const la_int64_t base = origin == SEEK_SET ? 0 : origin == SEEK_END ? size : static_cast<la_int64_t>(at_);
    at_ = static_cast<std::uint64_t>(std::clamp<la_int64_t>(base + offset, 0, size));
    return static_cast<la_int64_t>(at_);
  }

  SharedFile file_;
  std::optional<ByteSource> inflated_;
  std::vector<std::byte> buffer_;
  std::uint64_t at_ = 0;
  std::exception_ptr problem_;
};

// Where the files of an archive stand, in itself or in what it was unpacked into.
struct Members {
  std::vector<TarMember> files;
  SharedFile content;
};

class ArchiveReader {
 public:
  ArchiveReader(SharedFile file, std::uint64_t most_unpacked)
      : file_(std::move(file)),
        most_(most_unpacked),
        input_(file_, most_unpacked),
        reader_(archive_read_new()) {
    if (reader_ == nullptr) throw std::bad_alloc();
    const std::string& name = file_->name();
    is_tar_ = !name.ends_with(".zip") && !name.ends_with(".npz");
    if (is_tar_) {
      archive_read_support_format_tar(reader_.get());
    } else {
      archive_read_support_format_zip_seekable(reader_.get());
    }
    archive_read_set_read_callback(reader_.get(), Input::on_read);
    archive_read_set_skip_callback(reader_.get(), Input::on_skip);
    if (input_.can_seek()) archive_read_set_seek_callback(reader_.get(), Input::on_seek);
    archive_read_set_callback_data(reader_.get(), &input_);
    check(archive_read_open1(reader_.get()));
  }

  Members read() {
    Members members;
    std::shared_ptr<TemporaryFile> unpacked;
    const bool stays = is_tar_ && input_.can_seek();
    if (!stays) unpacked = std::make_shared<TemporaryFile>(file_->name());
    std::optional<std::pair<std::string, std::uint64_t>> before;  // of a .tar: the last file and its size
    std::uint64_t used = 0;
    archive_entry* entry = nullptr;
    for (;;) {
      const int code = archive_read_next_header(reader_.get(), &entry);
      if (code != ARCHIVE_EOF) check(code);
      if (before) note_extent(members, *before);
      before.reset();
      if (code == ARCHIVE_EOF) break;
      std::string name = name_of(entry);
      if (archive_entry_hardlink(entry) != nullptr)
        throw DataError(
            fmt::format("{}: '{}' is a link to another of its files: pack it with tar's --hard-dereference",
                        file_->name(), shown(name)));
      if (archive_entry_filetype(entry) != AE_IFREG || name.empty()) continue;
      if (members.files.size() >= most_files()) {
        throw DataError(fmt::format("{}: has more than {} files, too many for its {} bytes", file_->name(),
                                    most_files(), file_->size()));
      }
      if (stays) {
        if (archive_entry_sparse_count(entry) > 0)
          throw DataError(
              fmt::format("{}: '{}' has holes: pack it without them", file_->name(), shown(name)));
        const auto size = static_cast<std::uint64_t>(std::max<la_int64_t>(archive_entry_size(entry), 0));
        before = {std::move(name), size};
        continue;
      }
      const std::uint64_t bytes = unpack(*unpacked, used);
      members.files.push_back({std::move(name), used, bytes});
      used += bytes;
    }
    if (unpacked) unpacked->set_size(used);
    members.content = stays ? file_ : std::move(unpacked);
    input_.drain();
    return members;
  }

 private:
  // The lists of files that some bytes unpack to are to be bounded by these, too.
  std::size_t most_files() const {
    constexpr std::size_t kAnyway = 100'000;
    constexpr std::size_t kLeastBytes = 16;
    return kAnyway + file_->size() / kLeastBytes;
  }
  static std::string shown(const std::string& name) { return printable(name, kMostOfAReason); }

  // Of headers the library warns of character sets, of contents that a checksum differs.
  void check(int code, bool is_content = false) {
    input_.rethrow();
    if (code == ARCHIVE_OK || (code == ARCHIVE_WARN && !is_content)) return;
    const char* reason = archive_error_string(reader_.get());
    throw DataError(fmt::format("{}: {}: an incomplete copy, or another kind of archive?", file_->name(),
                                printable(reason == nullptr ? "damaged" : reason, kMostOfAReason)));
  }

  // Without "./" and "/" at its beginning. Empty for a name that is none in any character set.
  static std::string name_of(archive_entry* entry) {
    const char* text = archive_entry_pathname(entry);
    if (text == nullptr) text = archive_entry_pathname_utf8(entry);
    std::string_view name = text == nullptr ? "" : text;
    while (name.starts_with("./") || name.starts_with('/')) name.remove_prefix(name.starts_with('/') ? 1 : 2);
    return std::string(name);
  }

  // The library tells where headers begin: a file ends, in whole blocks, where the next one does.
  void note_extent(Members& members, const std::pair<std::string, std::uint64_t>& file) {
    const auto& [name, size] = file;
    const auto next = static_cast<std::uint64_t>(archive_read_header_position(reader_.get()));
    const std::uint64_t padded = (size + kTarBlock - 1) / kTarBlock * kTarBlock;
    if (size > file_->size() || next < padded || next - padded + size > file_->size())
      throw DataError(fmt::format("{}: ends within '{}': an incomplete copy?", file_->name(), shown(name)));
    members.files.push_back({name, next - padded, size});
  }

  // Writes the content of the entry at hand from `offset` on; how many bytes that is.
  std::uint64_t unpack(TemporaryFile& into, std::uint64_t offset) {
    std::array<std::byte, 64U << 10> bytes{};
    std::uint64_t written = 0;
    for (;;) {
      const la_ssize_t got = archive_read_data(reader_.get(), bytes.data(), bytes.size());
      if (got < 0) check(static_cast<int>(got), true);
      if (got <= 0) return written;
      const auto count = static_cast<std::size_t>(got);
      if (count > most_ - offset - written) {
        throw DataError(
            fmt::format("{}: unpacks to more than the {} bytes that it may", file_->name(), most_));
      }
      into.write(offset + written, std::span(bytes).first(count));
      written += count;
    }
  }

  struct Free {
    void operator()(archive* reader) const { archive_read_free(reader); }
  };
  SharedFile file_;
  std::uint64_t most_;
  Input input_;
  std::unique_ptr<archive, Free> reader_;
  bool is_tar_ = false;
};

class ArchiveTree : public FileTree {
 public:
  ArchiveTree(const RandomFile& archive, const std::string& below, const Members& members)
      : FileTree(below.empty() ? archive.name() : archive.name() + "/" + below), content_(members.content) {
    const std::string prefix = below.empty() ? "" : below + "/";
    std::vector<std::string> files;
    for (const TarMember& member : members.files) {
      if (!member.path.starts_with(prefix)) continue;
      std::string path = member.path.substr(prefix.size());
      // Of several of one name the last one counts, as when they are unpacked.
      extents_[path] = {member.offset, member.bytes};
      files.push_back(std::move(path));
    }
    std::ranges::sort(files);
    files.erase(std::unique(files.begin(), files.end()), files.end());
    if (files.empty())
      throw DataError(
          fmt::format("{}: has no files{}", archive.name(), below.empty() ? "" : " below " + below));
    set(std::move(files), {}, archive.version());
  }

  SharedFile open(const std::string& path) const override {
    const auto found = extents_.find(path);
    if (found == extents_.end()) throw DataError(fmt::format("{}: there is no such file", name_of(path)));
    const auto [offset, bytes] = found->second;
    return part_of_file(content_, offset, bytes, name_of(path));
  }
  bool is_far() const override { return content_->is_far(); }
  std::int64_t bytes() const override {
    constexpr std::int64_t kNode = 64;  // of a map, with its place and size
    std::int64_t bytes = FileTree::bytes();
    for (const auto& [path, extent] : extents_) bytes += bytes_of(path) + kNode;
    return bytes;
  }

 private:
  SharedFile content_;
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> extents_;  // offset, bytes
};

}  // namespace

std::uint64_t most_unpacked(std::uint64_t archive_bytes) {
  constexpr std::uint64_t kAnyway = 4ULL << 30;
  constexpr std::uint64_t kRatio = 32;
  constexpr std::uint64_t kMost = 1ULL << 46;
  return kAnyway + kRatio * std::min(archive_bytes, kMost / kRatio);
}

std::unique_ptr<FileTree> open_archive(const SharedFile& archive, const std::string& below,
                                       std::uint64_t most_unpacked) {
  // A .zip is read at many places, in no order.
  const bool is_zip = archive->name().ends_with(".zip") || archive->name().ends_with(".npz");
  const SharedFile near = is_zip && archive->is_far() ? fetched(*archive) : archive;
  return std::make_unique<ArchiveTree>(*archive, below, ArchiveReader(near, most_unpacked).read());
}

std::vector<TarMember> tar_members(const SharedFile& tar) {
  if (!tar->name().ends_with(".tar")) {
    throw DataError(
        fmt::format("{}: is no .tar: files of a packed archive cannot be read by themselves", tar->name()));
  }
  return ArchiveReader(tar, most_unpacked(tar->size())).read().files;
}

}  // namespace rookery
