#include "models/kernels/fewer_bits.hpp"

#include "models/kernels/simd/loops/loops.hpp"

namespace rookery {
namespace {

template <typename T>
simd::Index count_of(std::span<T> numbers) {
  return static_cast<simd::Index>(numbers.size());
}

}  // namespace

void to_float16(std::span<const float> numbers, std::byte* bytes) {
  simd::loops().to_float16(count_of(numbers), numbers.data(), bytes);
}
void from_float16(const std::byte* bytes, std::span<float> numbers) {
  simd::loops().from_float16(count_of(numbers), bytes, numbers.data());
}

void to_bfloat16(std::span<const float> numbers, std::byte* bytes) {
  simd::loops().to_bfloat16(count_of(numbers), numbers.data(), bytes);
}
void from_bfloat16(const std::byte* bytes, std::span<float> numbers) {
  simd::loops().from_bfloat16(count_of(numbers), bytes, numbers.data());
}

float largest_magnitude(std::span<const float> numbers) {
  return simd::loops().largest_magnitude(count_of(numbers), numbers.data());
}
void to_steps(std::span<const float> numbers, float unit, int most, std::int8_t* steps) {
  simd::loops().to_steps(count_of(numbers), unit, static_cast<float>(most), numbers.data(), steps);
}
void from_steps(const std::int8_t* steps, float unit, std::span<float> numbers) {
  simd::loops().from_steps(count_of(numbers), unit, steps, numbers.data());
}

}  // namespace rookery
