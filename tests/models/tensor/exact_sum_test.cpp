#include "models/tensor/exact_sum.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "models/base/check.hpp"

namespace rookery {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeast = std::numeric_limits<double>::denorm_min();
constexpr double kMost = std::numeric_limits<double>::max();

ExactSum sum_of(const std::vector<double>& numbers) {
  ExactSum sum;
  for (const double number : numbers) sum.add(number);
  return sum;
}

// Of every magnitude that a double may have.
rc::Gen<std::vector<double>> any_numbers() {
  return rc::gen::container<std::vector<double>>(
      rc::gen::map(rc::gen::pair(rc::gen::inRange(-1100, 1000), rc::gen::inRange<std::int64_t>(1, 1LL << 53)),
                   [](const std::pair<int, std::int64_t>& of) {
                     return std::ldexp(static_cast<double>(of.second), of.first - 40);
                   }));
}

RC_GTEST_PROP(ExactSum, IsTheSameInEveryOrderAndInAnyParts, ()) {
  std::vector<double> numbers = *any_numbers();
  const ExactSum expected = sum_of(numbers);
  const auto cut = static_cast<std::ptrdiff_t>(*rc::gen::inRange<std::size_t>(0, numbers.size() + 1));
  std::ranges::sort(numbers);
  const ExactSum first = sum_of({numbers.begin(), numbers.begin() + cut});
  ExactSum second = sum_of({numbers.begin() + cut, numbers.end()});
  second.add(first);
  RC_ASSERT(second.words() == expected.words());
  RC_ASSERT(std::bit_cast<std::uint64_t>(second.value()) == std::bit_cast<std::uint64_t>(expected.value()));
}

RC_GTEST_PROP(ExactSum, IsTheSumAsNearAsADoubleComes, ()) {
  const auto numbers = *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::arbitrary<std::uint32_t>());
  ExactSum sum;
  std::uint64_t expected = 0;
  for (const std::uint32_t number : numbers) {
    sum.add(std::ldexp(number, -20));
    expected += number;
  }
  RC_ASSERT(sum.value() == std::ldexp(static_cast<double>(expected), -20));
}

RC_GTEST_PROP(ExactSum, ComesOutOfItsWords, ()) {
  const ExactSum sum = sum_of(*any_numbers());
  const auto read = ExactSum::from(sum.words());
  RC_ASSERT(read.has_value());
  RC_ASSERT(read->words() == sum.words());
}

TEST(ExactSum, KeepsWhatDoublesWouldLose) {
  EXPECT_EQ(ExactSum().value(), 0);
  EXPECT_EQ(sum_of({0x1p53, 1, 1}).value(), 0x1p53 + 2);
  EXPECT_EQ(sum_of({1, 0x1p-60, 1, 0x1p-60}).value(), 2);
  EXPECT_EQ(sum_of({kLeast}).value(), kLeast);
  EXPECT_EQ(sum_of({kLeast, kLeast, 3 * kLeast}).value(), 5 * kLeast);
  EXPECT_EQ(sum_of({kMost}).value(), kMost);
  EXPECT_EQ(sum_of({kMost, kLeast}).value(), kMost);
  EXPECT_EQ(sum_of({kMost, kMost}).value(), kInfinity);
}

// More than the room beside a digit holds: 2^31 equal numbers, by doubling.
TEST(ExactSum, CarriesWhereDigitsAreFull) {
  ExactSum sum = sum_of({1 - 0x1p-53});
  for (int i = 0; i < 70; ++i) {
    const ExactSum again = sum;
    sum.add(again);
  }
  EXPECT_EQ(sum.value(), std::ldexp(1 - 0x1p-53, 70));
}

TEST(ExactSum, OfWhatOverflowsIsInfiniteOrNoNumber) {
  EXPECT_EQ(sum_of({1, kInfinity}).value(), kInfinity);
  EXPECT_TRUE(std::isnan(sum_of({kInfinity, kNan, 1}).value()));
  EXPECT_TRUE(std::isnan(ExactSum::from(sum_of({-kNan}).words())->value()));
  EXPECT_EQ(ExactSum::from(sum_of({kInfinity}).words())->value(), kInfinity);
  EXPECT_THROW(sum_of({-1}), BugError);
}

TEST(ExactSum, WordsThatNoSumHasAreRefused) {
  ExactSum::Words words{};
  EXPECT_TRUE(ExactSum::from(words));
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{1} << 32}) {
    words = {};
    words[5] = wrong;
    EXPECT_FALSE(ExactSum::from(words)) << wrong;
  }
  for (const double wrong : {1.0, -1.0, -kInfinity}) {
    words = {};
    words.back() = std::bit_cast<std::int64_t>(wrong);
    EXPECT_FALSE(ExactSum::from(words)) << wrong;
  }
}

}  // namespace
}  // namespace rookery
