// Tells whether two copies of data are the same. What comes out stands in plans and in indexes of images.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "models/base/fnv.hpp"

namespace rookery {

// FNV-1a over units of eight bytes; the last ones, that are fewer, byte by byte.
inline std::uint64_t content_digest(std::string_view content) {
  Fnv1a digest;
  constexpr std::size_t kUnit = sizeof(std::uint64_t);
  for (; content.size() >= kUnit; content.remove_prefix(kUnit)) {
    std::uint64_t unit = 0;
    std::memcpy(&unit, content.data(), kUnit);
    digest.add_unit(unit);
  }
  digest.add(content);
  return digest.value();
}

}  // namespace rookery
