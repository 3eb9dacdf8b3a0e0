// Converts numbers of two bytes, which files have and we do not compute with. Internal to this module.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace rookery {

enum class Half : std::uint8_t {
  kNone,
  kF16,   // IEEE 754 half precision
  kBf16,  // the upper half of a float
};
constexpr std::size_t kHalfBytes = 2;

constexpr float float_from(Half kind, std::uint16_t bits) {
  constexpr int kMantissaShift = 23 - 10;
  constexpr std::uint32_t kRebias = (127U - 15U) << 23;
  if (kind == Half::kBf16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t rest = bits & 0x7FFFU;
  if (rest >= 0x7C00U)  // infinity and NaN
    return std::bit_cast<float>(sign | 0x7F800000U | (rest & 0x3FFU) << kMantissaShift);
  if (rest < 0x400U) {  // subnormal: a multiple of 2^-24
    const float magnitude = static_cast<float>(rest) * 0x1p-24F;
    return sign == 0 ? magnitude : -magnitude;
  }
  return std::bit_cast<float>(sign | ((rest << kMantissaShift) + kRebias));
}

}  // namespace rookery
