// Zip archives as PyTorch has them (PKWARE's APPNOTE 6.3.3, sections 4.3 and 4.5.3). Internal to this module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/files/files.hpp"

namespace rookery {

constexpr std::uint32_t kZipLocal = 0x04034B50;
constexpr std::uint32_t kZipCentral = 0x02014B50;
constexpr std::uint32_t kZipEnd = 0x06054B50;
constexpr std::uint32_t kZip64End = 0x06064B50;
constexpr std::uint32_t kZip64Locator = 0x07064B50;
constexpr std::uint16_t kZip64Extra = 0x0001;
constexpr std::uint16_t kZipSee64 = 0xFFFF;  // "look into the zip64 record"
constexpr std::uint32_t kZipSee64Wide = 0xFFFFFFFF;
constexpr std::size_t kZipLocalBytes = 30;  // without name and extra fields
constexpr std::size_t kZipExtraHeader = 4;
constexpr std::uint16_t kZipStored = 0;
constexpr std::uint16_t kZipDeflated = 8;

// Writes stored (uncompressed) members, always with the zip64 records that lift the limits of 4 GiB and
// 65,535 members.
class ZipWriter {
 public:
  explicit ZipWriter(const std::filesystem::path& path) : file_(path) {}

  // The member's bytes begin at a multiple of kAlignment in the file.
  void add(const std::string& name, std::span<const std::byte> bytes);
  void add(const std::string& name, std::string_view text);
  // Writes the directory and puts the file in place.
  void commit();

 private:
  struct Member {
    std::string name;
    std::uint32_t crc = 0;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;  // of its local header
  };
  void write(const std::string& record);

  AtomicFile file_;
  std::uint64_t position_ = 0;
  std::vector<Member> members_;
};

// Reads members, stored or deflated. Nothing in the file is trusted: DataError for what is cut short, lies
// outside the file or over another member, is encrypted, or has another checksum than the directory says.
// Messages do not name the file.
class ZipReader {
 public:
  struct Member {
    std::uint16_t method = kZipStored;
    std::uint32_t crc = 0;
    std::uint64_t packed_bytes = 0;  // in the file
    std::uint64_t bytes = 0;         // what the directory claims
    std::uint64_t offset = 0;        // of its local header
  };

  explicit ZipReader(const std::filesystem::path& path);

  std::uint64_t file_bytes() const { return file_bytes_; }
  const std::map<std::string, Member>& members() const { return members_; }
  // DataError when there is none of this name.
  const Member& member(const std::string& name) const;
  // `into` has the member's bytes.
  void read(const std::string& name, std::span<std::byte> into);

 private:
  struct Directory {
    std::uint64_t offset = 0, bytes = 0, members = 0;
  };
  Directory find_directory();
  void read_directory(const Directory& directory);
  void check_overlap(std::uint64_t directory) const;
  std::string bytes_at(std::uint64_t offset, std::uint64_t count);
  void inflate(std::uint64_t packed_bytes, std::span<std::byte> into);

  std::ifstream stream_;
  std::uint64_t file_bytes_ = 0;
  std::map<std::string, Member> members_;
};

}  // namespace rookery
