#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <system_error>
#include <utility>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"
#include "models/io/pytorch/zip.hpp"

namespace rookery {
namespace {

// Sizes of records without their names and comments, as APPNOTE has them.
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kMaxComment = 0xFFFF;
constexpr std::size_t kZip64EndBytes = 56;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::size_t kCentralBytes = 46;
constexpr std::uint64_t kMaxDirectoryBytes = 16U << 20;  // some hundred thousand members
constexpr std::uint16_t kEncrypted = 1;
constexpr std::size_t kInflatePart = std::size_t{1} << 16;

// Little-endian fields, one after the other.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  std::string_view text(std::size_t count) {
    if (count > rest_.size()) throw DataError("its directory is cut short");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::uint64_t number(std::size_t bytes) {
    const std::string_view taken = text(bytes);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    return value;
  }

  std::string_view rest_;
};

// Takes the numbers that did not fit from the zip64 field, which has just these, in this order.
void fill_from_extra(std::string_view extra, ZipReader::Member& member) {
  Fields fields(extra);
  while (!fields.empty()) {
    const std::uint16_t id = fields.u16();
    Fields field(fields.text(fields.u16()));
    if (id != kZip64Extra) continue;
    for (std::uint64_t* number : {&member.bytes, &member.packed_bytes, &member.offset}) {
      if (*number == kZipSee64Wide) *number = field.u64();
    }
  }
}

std::pair<std::string, ZipReader::Member> central_entry(Fields& fields) {
  if (fields.u32() != kZipCentral) throw DataError("its directory is damaged");
  fields.text(4);  // versions
  const std::uint16_t flags = fields.u16();
  ZipReader::Member member{.method = fields.u16()};
  fields.text(4);  // date
  member.crc = fields.u32();
  member.packed_bytes = fields.u32();
  member.bytes = fields.u32();
  const std::uint16_t name_bytes = fields.u16();
  const std::uint16_t extra_bytes = fields.u16();
  const std::uint16_t comment_bytes = fields.u16();
  fields.text(8);  // disk, attributes
  member.offset = fields.u32();
  std::string name(fields.text(name_bytes));
  const std::string shown = in_quotes(name);
  fill_from_extra(fields.text(extra_bytes), member);
  fields.text(comment_bytes);
  if ((flags & kEncrypted) != 0) throw DataError(fmt::format("member {} is encrypted", shown));
  if (member.method != kZipStored && member.method != kZipDeflated) {
    throw DataError(fmt::format("member {} is packed by method {}; stored and deflated ones are read", shown,
                                member.method));
  }
  if (member.method == kZipStored && member.packed_bytes != member.bytes)
    throw DataError(fmt::format("member {} is stored, but has two sizes", shown));
  return {std::move(name), member};
}

}  // namespace

ZipReader::ZipReader(const std::filesystem::path& path) : stream_(path, std::ios::binary) {
  std::error_code code;
  file_bytes_ = std::filesystem::file_size(path, code);
  if (code) throw DataError("cannot read: " + code.message());
  if (!stream_) throw DataError("cannot open for reading");
  const Directory directory = find_directory();
  read_directory(directory);
  check_overlap(directory.offset);
}

const ZipReader::Member& ZipReader::member(const std::string& name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) throw DataError(fmt::format("there is no member {}", in_quotes(name)));
  return found->second;
}

std::string ZipReader::bytes_at(std::uint64_t offset, std::uint64_t count) {
  if (offset > file_bytes_ || count > file_bytes_ - offset) {
    throw DataError(fmt::format("needs bytes {} to {} of the file, which has {}: an incomplete copy?", offset,
                                offset + count, file_bytes_));
  }
  std::string bytes(count, '\0');
  stream_.clear();
  stream_.seekg(static_cast<std::streamoff>(offset));
  if (!stream_.read(bytes.data(), static_cast<std::streamsize>(count))) throw DataError("cannot read");
  return bytes;
}

// The end record is the last that has just its comment behind it.
ZipReader::Directory ZipReader::find_directory() {
  const std::uint64_t tail_bytes = std::min<std::uint64_t>(file_bytes_, kEndBytes + kMaxComment);
  const std::uint64_t tail_begin = file_bytes_ - tail_bytes;
  const std::string tail = bytes_at(tail_begin, tail_bytes);
  for (std::size_t at = tail.size() < kEndBytes ? 0 : tail.size() - kEndBytes + 1; at-- > 0;) {
    Fields end(std::string_view(tail).substr(at, kEndBytes));
    if (end.u32() != kZipEnd) continue;
    end.text(4);  // disks
    end.u16();
    Directory directory{.members = end.u16()};
    directory.bytes = end.u32();
    directory.offset = end.u32();
    if (at + kEndBytes + end.u16() != tail.size()) continue;
    if (directory.members != kZipSee64 && directory.offset != kZipSee64Wide) return directory;
    const std::uint64_t end_offset = tail_begin + at;
    if (end_offset < kLocatorBytes) return directory;
    const std::string locator_bytes = bytes_at(end_offset - kLocatorBytes, kLocatorBytes);
    Fields locator(locator_bytes);
    if (locator.u32() != kZip64Locator) return directory;
    locator.u32();
    const std::string end64_bytes = bytes_at(locator.u64(), kZip64EndBytes);
    Fields end64(end64_bytes);
    if (end64.u32() != kZip64End) throw DataError("its zip64 end record is damaged");
    end64.text(28);  // size, versions, disks, members on this disk
    directory.members = end64.u64();
    directory.bytes = end64.u64();
    directory.offset = end64.u64();
    return directory;
  }
  throw DataError("it has no zip directory: an incomplete copy?");
}

void ZipReader::read_directory(const Directory& directory) {
  if (directory.bytes > kMaxDirectoryBytes || directory.members > directory.bytes / kCentralBytes) {
    throw DataError(fmt::format("its directory claims {} members in {} bytes (at most {} are allowed)",
                                directory.members, directory.bytes, kMaxDirectoryBytes));
  }
  const std::string bytes = bytes_at(directory.offset, directory.bytes);
  Fields fields(bytes);
  for (std::uint64_t i = 0; i < directory.members; ++i) {
    auto [name, member] = central_entry(fields);
    const std::string shown = in_quotes(name);
    if (!members_.emplace(std::move(name), member).second)
      throw DataError(fmt::format("member {} is there twice", shown));
  }
  if (!fields.empty()) throw DataError("its directory is longer than its members");
}

// Members that share their bytes are how small files inflate to huge ones.
void ZipReader::check_overlap(std::uint64_t directory) const {
  std::vector<std::pair<const std::string*, const Member*>> order;
  for (const auto& [name, member] : members_) order.emplace_back(&name, &member);
  std::ranges::sort(order, {}, [](const auto& item) { return item.second->offset; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& [name, member] = order[i];
    const std::uint64_t end = i + 1 < order.size() ? order[i + 1].second->offset : directory;
    const std::uint64_t header = kZipLocalBytes + name->size();
    if (member->offset > end || end - member->offset < header ||
        end - member->offset - header < member->packed_bytes) {
      throw DataError(fmt::format("member {} of {} bytes at byte {} reaches over what begins at byte {}",
                                  in_quotes(*name), member->packed_bytes, member->offset, end));
    }
  }
}

void ZipReader::read(const std::string& name, std::span<std::byte> into) {
  const Member& found = member(name);
  ROOKERY_CHECK(into.size() == found.bytes, "{} bytes for a member of {}", into.size(), found.bytes);
  with_context("member " + in_quotes(name), [&] {
    const std::string header = bytes_at(found.offset, kZipLocalBytes);
    Fields fields(header);
    if (fields.u32() != kZipLocal) throw DataError("has no header");
    fields.text(22);
    const std::uint16_t name_bytes = fields.u16();
    const std::uint64_t begin = found.offset + kZipLocalBytes + name_bytes + fields.u16();
    if (bytes_at(found.offset + kZipLocalBytes, name_bytes) != name)
      throw DataError("has another name in its header");
    if (begin > file_bytes_ || found.packed_bytes > file_bytes_ - begin)
      throw DataError(fmt::format("ends after the file's {} bytes: an incomplete copy?", file_bytes_));
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(begin));
    if (found.method == kZipDeflated) {
      inflate(found.packed_bytes, into);
    } else if (!stream_.read(reinterpret_cast<char*>(into.data()), std::ssize(into))) {
      throw DataError("cannot read");
    }
    const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(into.data()), into.size());
    if (crc != found.crc)
      throw DataError(fmt::format("is damaged: its checksum is {:08x}, not {:08x}", crc, found.crc));
  });
}

void ZipReader::inflate(std::uint64_t packed_bytes, std::span<std::byte> into) {
  z_stream state{};
  if (::inflateInit2(&state, -MAX_WBITS) != Z_OK) throw DataError("cannot be inflated");
  const std::unique_ptr<z_stream, decltype(&::inflateEnd)> ended(&state, &::inflateEnd);
  std::array<Bytef, kInflatePart> packed{};
  int code = Z_OK;
  while (code == Z_OK) {
    if (state.avail_in == 0) {
      const auto part = std::min<std::uint64_t>(packed_bytes, packed.size());
      if (part == 0 ||
          !stream_.read(reinterpret_cast<char*>(packed.data()), static_cast<std::streamsize>(part)))
        throw DataError("its deflated data is cut short");
      packed_bytes -= part;
      state.next_in = packed.data();
      state.avail_in = static_cast<uInt>(part);
    }
    // One byte more than there may be tells a stream that goes on from one that ends.
    std::array<Bytef, 1> beyond{};
    const std::size_t done = state.total_out;
    const std::size_t room = into.size() - std::min(done, into.size());
    state.next_out = room == 0 ? beyond.data() : reinterpret_cast<Bytef*>(into.data()) + done;
    state.avail_out = room == 0 ? 1U : static_cast<uInt>(std::min<std::size_t>(room, 1U << 30));
    code = ::inflate(&state, Z_NO_FLUSH);
    if (state.total_out > into.size())
      throw DataError(fmt::format("inflates to more than the {} bytes of the directory", into.size()));
  }
  if (code != Z_STREAM_END || state.total_out != into.size()) {
    throw DataError(fmt::format("inflates to {} bytes, the directory says {}", state.total_out, into.size()));
  }
}

}  // namespace rookery
