#include "models/io/pytorch/zip.hpp"

#include <zlib.h>

#include "models/tensor/tensor.hpp"

namespace rookery {
namespace {

constexpr std::uint16_t kVersion = 45;  // zip64
constexpr std::uint16_t kUtf8Names = 1U << 11;
constexpr std::uint16_t kMidnight = 0;
constexpr std::uint16_t kFirstOfJanuary1980 = (1U << 5) | 1U;  // files do not differ by when they were made
constexpr std::uint16_t kPaddingExtra = 0x4246;                // "FB", as PyTorch pads
// Bytes of the zip64 field with its header: of both sizes, and of these and the offset.
constexpr std::size_t kZip64Local = 20;
constexpr std::size_t kZip64Central = 28;

// Little-endian fields, one after the other.
class Record {
 public:
  Record& u16(std::uint64_t value) { return append(value, 2); }
  Record& u32(std::uint64_t value) { return append(value, 4); }
  Record& u64(std::uint64_t value) { return append(value, 8); }
  Record& text(std::string_view value) {
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& append(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xFF);
    return *this;
  }

  std::string bytes_;
};

// Fields that local and central headers share, from the version on.
void add_common(Record& record, std::uint32_t crc, std::size_t name, std::size_t extra) {
  record.u16(kVersion).u16(kUtf8Names).u16(kZipStored).u16(kMidnight).u16(kFirstOfJanuary1980);
  record.u32(crc).u32(kZipSee64Wide).u32(kZipSee64Wide).u16(name).u16(extra);
}

}  // namespace

void ZipWriter::write(const std::string& record) {
  file_.write(record);
  position_ += record.size();
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  const auto crc =
      static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  members_.push_back({.name = name, .crc = crc, .bytes = bytes.size(), .offset = position_});
  const std::uint64_t unpadded = position_ + kZipLocalBytes + name.size() + kZip64Local + kZipExtraHeader;
  const std::size_t padding = align_up(unpadded) - unpadded;
  Record record;
  record.u32(kZipLocal);
  add_common(record, crc, name.size(), kZip64Local + kZipExtraHeader + padding);
  record.text(name);
  record.u16(kZip64Extra).u16(kZip64Local - kZipExtraHeader).u64(bytes.size()).u64(bytes.size());
  record.u16(kPaddingExtra).u16(padding).text(std::string(padding, 'Z'));
  write(record.bytes());
  file_.write(bytes);
  position_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::string_view text) {
  add(name, std::as_bytes(std::span(text.data(), text.size())));
}

void ZipWriter::commit() {
  const std::uint64_t directory = position_;
  for (const Member& member : members_) {
    Record record;
    record.u32(kZipCentral).u16(kVersion);
    add_common(record, member.crc, member.name.size(), kZip64Central);
    record.u16(0).u16(0).u16(0).u32(0);  // no comment, first disk, no attributes
    record.u32(kZipSee64Wide).text(member.name);
    record.u16(kZip64Extra).u16(kZip64Central - kZipExtraHeader);
    record.u64(member.bytes).u64(member.bytes).u64(member.offset);
    write(record.bytes());
  }
  const std::uint64_t end = position_;
  Record record;
  record.u32(kZip64End).u64(44).u16(kVersion).u16(kVersion).u32(0).u32(0);
  record.u64(members_.size()).u64(members_.size()).u64(end - directory).u64(directory);
  record.u32(kZip64Locator).u32(0).u64(end).u32(1);
  record.u32(kZipEnd)
      .u16(0)
      .u16(0)
      .u16(kZipSee64)
      .u16(kZipSee64)
      .u32(kZipSee64Wide)
      .u32(kZipSee64Wide)
      .u16(0);
  write(record.bytes());
  file_.commit();
}

}  // namespace rookery
