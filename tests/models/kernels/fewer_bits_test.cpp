// Numbers of fewer bits against what they are defined to be, on every instruction set.
#include "models/kernels/fewer_bits.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "tests/models/kernels/every_isa.hpp"

namespace rookery::kernel_tests {
namespace {

using Numbers = std::vector<float>;
using Bits = std::vector<std::uint16_t>;

// A format of 16 bits.
struct Half {
  int mantissa_bits;
  int bias;
  void (*to)(std::span<const float>, std::byte*);
  void (*from)(const std::byte*, std::span<float>);
};
const Half kFloat16{10, 15, to_float16, from_float16};
const Half kBFloat16{7, 127, to_bfloat16, from_bfloat16};

// By IEEE 754's definition.
double value_of(std::uint16_t bits, const Half& half) {
  const int mantissa = bits & ((1 << half.mantissa_bits) - 1);
  const int exponent = (bits & 0x7FFF) >> half.mantissa_bits;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (0x7FFF >> half.mantissa_bits))
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  const int whole = mantissa + (exponent == 0 ? 0 : 1 << half.mantissa_bits);
  return sign * std::ldexp(whole, std::max(exponent, 1) - half.bias - half.mantissa_bits);
}

// An odd place, so that nothing is aligned.
Bits encoded(const Numbers& numbers, const Half& half) {
  std::vector<std::byte> bytes(1 + numbers.size() * sizeof(std::uint16_t));
  half.to(numbers, bytes.data() + 1);
  Bits bits(numbers.size());
  std::memcpy(bits.data(), bytes.data() + 1, bytes.size() - 1);
  return bits;
}

Numbers decoded(const Bits& bits, const Half& half) {
  std::vector<std::byte> bytes(1 + bits.size() * sizeof(std::uint16_t));
  std::memcpy(bytes.data() + 1, bits.data(), bytes.size() - 1);
  Numbers numbers(bits.size());
  half.from(bytes.data() + 1, numbers);
  return numbers;
}

Bits every_half() {
  Bits all;
  for (unsigned bits = 0; bits <= 0xFFFF; ++bits) all.push_back(static_cast<std::uint16_t>(bits));
  return all;
}

void expect_the_values_of_all(const Half& half) {
  const Bits all = every_half();
  const Numbers numbers = decoded(all, half);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double value = value_of(all[i], half);
    ASSERT_TRUE(std::isnan(value) ? std::isnan(numbers[i]) : double{numbers[i]} == value)
        << std::hex << all[i];
    ASSERT_EQ(std::signbit(numbers[i]), (all[i] & 0x8000) != 0) << std::hex << all[i];
  }
}

// What lies in the middle of two neighbours goes to the even one, and what is beside it to the nearer.
void expect_the_nearest(const Half& half) {
  Numbers numbers;
  Bits expected;
  for (unsigned bits = 0; std::isfinite(value_of(static_cast<std::uint16_t>(bits + 1), half)); ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const auto middle = static_cast<float>((value_of(low, half) + value_of(high, half)) / 2);
    for (const auto& [number, nearest] : {std::pair{static_cast<float>(value_of(low, half)), low},
                                          {std::nextafter(middle, 0.0F), low},
                                          {middle, (low & 1) == 0 ? low : high},
                                          {std::nextafter(middle, 2 * middle), high}}) {
      numbers.insert(numbers.end(), {number, -number});
      expected.insert(expected.end(), {nearest, static_cast<std::uint16_t>(nearest | 0x8000)});
    }
  }
  const Bits bits = encoded(numbers, half);
  for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(bits[i], expected[i]) << numbers[i];
}

void expect_bounds(const Half& half, float largest) {
  const float beyond = std::nextafter(largest, std::numeric_limits<float>::infinity());
  const Numbers numbers{largest,
                        beyond,
                        -std::numeric_limits<float>::max(),
                        std::numeric_limits<float>::infinity(),
                        std::nanf(""),
                        -std::nanf("7")};
  const Numbers back = decoded(encoded(numbers, half), half);
  EXPECT_EQ(Numbers(back.begin(), back.begin() + 4), (Numbers{largest, largest, -largest, largest}));
  EXPECT_TRUE(std::isnan(back[4]) && std::isnan(back[5]));
}

TEST(FewerBits, HalvesAreWhatTheyAreDefinedToBe) {
  for_each_isa([] {
    expect_the_values_of_all(kFloat16);
    expect_the_values_of_all(kBFloat16);
    expect_the_nearest(kFloat16);
    expect_the_nearest(kBFloat16);
    expect_bounds(kFloat16, 65504);
    expect_bounds(kBFloat16, 0x1.FEp127F);
  });
}

TEST(FewerBits, TheLargestMagnitudeIsNaNWhereThereIsOne) {
  for_each_isa([] {
    EXPECT_EQ(largest_magnitude({}), 0);
    for (std::size_t at = 0; at < 37; ++at) {
      Numbers numbers(37, 1.5F);
      numbers[at] = -2;
      EXPECT_EQ(largest_magnitude(numbers), 2);
      numbers[36 - at] = std::nanf("");
      EXPECT_TRUE(std::isnan(largest_magnitude(numbers)));
    }
  });
}

RC_GTEST_PROP(FewerBits, StepsAreTheNearestToEven, ()) {
  const auto bits = *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::arbitrary<std::uint32_t>());
  const int most = *rc::gen::element(7, 127);
  Numbers numbers{1e-3F};
  for (const std::uint32_t each : bits) {
    const auto number = std::bit_cast<float>(each);
    if (std::isfinite(number)) numbers.push_back(number);
  }
  const float largest =
      *rc::gen::element(1.0F, 1e-38F, 3e38F);  // the rest is small beside it, or bounded by it
  for (float& number : numbers) number = std::clamp(number, -largest, largest);
  numbers.push_back(largest);
  const float unit = largest_magnitude(numbers) / static_cast<float>(most);
  for_each_isa([&] {
    std::vector<std::int8_t> steps(numbers.size());
    to_steps(numbers, unit, most, steps.data());
    Numbers back(numbers.size());
    from_steps(steps.data(), unit, back);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto limit = static_cast<float>(most);
      RC_ASSERT(static_cast<float>(steps[i]) == std::clamp(std::nearbyint(numbers[i] / unit), -limit, limit));
      RC_ASSERT(back[i] == unit * static_cast<float>(steps[i]));
    }
  });
}

}  // namespace
}  // namespace rookery::kernel_tests
