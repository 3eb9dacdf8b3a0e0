// Floats of 16 bits, rounded to nearest, ties to even: IEEE 754 binary16 and bfloat16.
#pragma once

#include <cstdint>

namespace rookery {

// Beyond the largest number there is they give infinity; NaN stays.
constexpr float kLargestFloat16 = 65504;
std::uint16_t to_float16(float number);
float from_float16(std::uint16_t bits);

constexpr float kLargestBFloat16 = 0x1.FEp127F;
std::uint16_t to_bfloat16(float number);
float from_bfloat16(std::uint16_t bits);

}  // namespace rookery
