// Floats with fewer bits. Loops that the compiler makes vectors of: each computes what either case gives, and
// selects.
#include "models/kernels/simd/loops/vector.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

// A pointer declared auto would lose the attributes.
using HalfBits [[gnu::aligned(1), gnu::may_alias]] = std::uint16_t;

constexpr std::uint32_t kSign = 0x8000'0000U;
constexpr std::uint32_t kInfinity = 0x7F80'0000U;

inline std::uint32_t bits_of(float number) {
  return __builtin_bit_cast(std::uint32_t, number);
}
inline float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

// Binary16 has 10 bits of mantissa where binary32 has 23, and its exponents begin at that of 2^-14.
constexpr std::uint32_t kLargest16 = 0x477F'E000U;  // 65504
constexpr std::uint32_t kLeastNormal16 = (127U - 14) << 23;
constexpr std::uint32_t kExponents16 = (127U - 15) << 23;  // by which exponents differ
constexpr std::uint32_t kNaN16 = 0x7E00U;
// In a sum with it the lowest bit of a mantissa is worth as much as that of what is not normal in binary16:
// the addition rounds.
constexpr std::uint32_t kSubnormal16 = (127U - 14 + 13) << 23;

inline std::uint16_t float16_of(float number) {
  const std::uint32_t sign = bits_of(number) & kSign;
  const std::uint32_t magnitude = bits_of(number) ^ sign;
  const std::uint32_t bounded = magnitude > kLargest16 ? kLargest16 : magnitude;
  const std::uint32_t normal = (bounded - kExponents16 + 0xFFFU + ((bounded >> 13) & 1U)) >> 13;
  const std::uint32_t subnormal = bits_of(float_of(bounded) + float_of(kSubnormal16)) - kSubnormal16;
  const std::uint32_t rounded = bounded < kLeastNormal16 ? subnormal : normal;
  return static_cast<std::uint16_t>((magnitude > kInfinity ? kNaN16 : rounded) | (sign >> 16));
}

inline float float_of_float16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t magnitude = (half & 0x7FFFU) << 13;
  const std::uint32_t normal = magnitude + kExponents16;
  const std::uint32_t endless = magnitude | kInfinity;
  const float subnormal = float_of(magnitude + kLeastNormal16) - float_of(kLeastNormal16);
  const std::uint32_t value = magnitude < (1U << 23) ? bits_of(subnormal) : normal;
  return float_of((magnitude >= (31U << 23) ? endless : value) | sign);
}

constexpr std::uint32_t kLargestB16 = 0x7F7F'0000U;
constexpr std::uint32_t kNaNB16 = 0x7FC0U;

inline std::uint16_t bfloat16_of(float number) {
  const std::uint32_t sign = bits_of(number) & kSign;
  const std::uint32_t magnitude = bits_of(number) ^ sign;
  const std::uint32_t bounded = magnitude > kLargestB16 ? kLargestB16 : magnitude;
  const std::uint32_t rounded = (bounded + 0x7FFFU + ((bounded >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>((magnitude > kInfinity ? kNaNB16 : rounded) | (sign >> 16));
}

}  // namespace

void to_float16(Index n, const float* x, std::byte* y) {
  HalfBits* const halves = reinterpret_cast<HalfBits*>(y);
  for (Index i = 0; i < n; ++i) halves[i] = float16_of(x[i]);
}

void from_float16(Index n, const std::byte* x, float* y) {
  const HalfBits* const halves = reinterpret_cast<const HalfBits*>(x);
  for (Index i = 0; i < n; ++i) y[i] = float_of_float16(halves[i]);
}

void to_bfloat16(Index n, const float* x, std::byte* y) {
  HalfBits* const halves = reinterpret_cast<HalfBits*>(y);
  for (Index i = 0; i < n; ++i) halves[i] = bfloat16_of(x[i]);
}

void from_bfloat16(Index n, const std::byte* x, float* y) {
  const HalfBits* const halves = reinterpret_cast<const HalfBits*>(x);
  for (Index i = 0; i < n; ++i) y[i] = float_of(static_cast<std::uint32_t>(halves[i]) << 16);
}

// As whole numbers magnitudes have the same order.
float largest_magnitude(Index n, const float* x) {
  std::int32_t largest = 0;
  for (Index i = 0; i < n; ++i) {
    const auto magnitude = static_cast<std::int32_t>(bits_of(x[i]) & ~kSign);
    largest = magnitude > largest ? magnitude : largest;
  }
  return __builtin_bit_cast(float, largest);
}

void to_steps(Index n, float unit, float most, const float* x, std::int8_t* y) {
  constexpr float kWhole = 0x1.8p23F;  // a sum with it has no places behind the point: the addition rounds
  for (Index i = 0; i < n; ++i) {
    const float rounded = (x[i] / unit + kWhole) - kWhole;
    const float from_below = rounded < -most ? -most : rounded;
    const float bounded = from_below > most ? most : from_below;
    y[i] = static_cast<std::int8_t>(static_cast<std::int32_t>(bounded));
  }
}

void from_steps(Index n, float unit, const std::int8_t* x, float* y) {
  for (Index i = 0; i < n; ++i) y[i] = unit * static_cast<float>(x[i]);
}

}  // namespace rookery::simd::ROOKERY_ISA
