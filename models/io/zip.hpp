// Writes zip archives of stored (uncompressed) members, always with the zip64 records that lift the
// limits of 4 GiB and 65,535 members (PKWARE's APPNOTE 6.3.3, sections 4.3 and 4.5.3). Internal to
// this room.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/files.hpp"

namespace rookery {

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

}  // namespace rookery
