// Arrays of floats with fewer bits each, on the host: rounded to nearest, ties to even, to the same bits by
// the loops of every instruction set. The bytes need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rookery {

// IEEE 754 binary16 and bfloat16, two bytes each in the order of this machine. What is beyond the largest
// number there is becomes that one; NaN stays.
void to_float16(std::span<const float> numbers, std::byte* bytes);
void from_float16(const std::byte* bytes, std::span<float> numbers);
void to_bfloat16(std::span<const float> numbers, std::byte* bytes);
void from_bfloat16(const std::byte* bytes, std::span<float> numbers);

// The largest magnitude of an array; NaN is above all others.
float largest_magnitude(std::span<const float> numbers);
// Numbers as multiples of `unit`, from -most to most. All numbers are finite, 0 < unit, and most is the
// largest magnitude by it, but for rounding, and at most 127.
void to_steps(std::span<const float> numbers, float unit, int most, std::int8_t* steps);
void from_steps(const std::int8_t* steps, float unit, std::span<float> numbers);

}  // namespace rookery
