// Zip archives put together by hand, right or wrong.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/libraries/format.hpp"

namespace rookery {

struct ZipMember {
  std::string name;
  std::string packed;  // as it lies in the file
  std::uint16_t method = 0;
  std::uint32_t bytes = 0;
  std::uint32_t crc = 0;
  std::uint16_t flags = 0;
  std::optional<std::uint32_t> offset;  // where the directory says that it begins, if it lies
};

inline std::uint32_t crc_of(const std::string& bytes) {
  return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

inline ZipMember stored(std::string name, std::string bytes) {
  ZipMember member{
      .name = std::move(name), .bytes = static_cast<std::uint32_t>(bytes.size()), .crc = crc_of(bytes)};
  member.packed = std::move(bytes);
  return member;
}

inline ZipMember deflated(std::string name, const std::string& bytes) {
  std::string packed(::compressBound(bytes.size()) + 64, '\0');
  z_stream state{};
  ::deflateInit2(&state, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  state.avail_in = static_cast<uInt>(bytes.size());
  state.next_out = reinterpret_cast<Bytef*>(packed.data());
  state.avail_out = static_cast<uInt>(packed.size());
  ::deflate(&state, Z_FINISH);
  packed.resize(state.total_out);
  ::deflateEnd(&state);
  return {.name = std::move(name),
          .packed = std::move(packed),
          .method = Z_DEFLATED,
          .bytes = static_cast<std::uint32_t>(bytes.size()),
          .crc = crc_of(bytes)};
}

inline std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value & 0xFF);
  return text;
}

inline std::string zip_of(const std::vector<ZipMember>& members) {
  std::string file;
  std::string directory;
  for (const ZipMember& member : members) {
    const std::string common = little(20, 2) + little(member.flags, 2) + little(member.method, 2) +
                               little(0, 4) + little(member.crc, 4) + little(member.packed.size(), 4) +
                               little(member.bytes, 4) + little(member.name.size(), 2) + little(0, 2);
    directory += "PK\1\2" + little(20, 2) + common + little(0, 10) +
                 little(member.offset.value_or(static_cast<std::uint32_t>(file.size())), 4) + member.name;
    file += "PK\3\4" + common + member.name + member.packed;
  }
  const std::size_t begin = file.size();
  return file + directory + "PK\5\6" + little(0, 4) + little(members.size(), 2) + little(members.size(), 2) +
         little(directory.size(), 4) + little(begin, 4) + little(0, 2);
}

}  // namespace rookery
