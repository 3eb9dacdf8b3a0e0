#include "models/tensor/exact_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "models/base/check.hpp"

namespace rookery {

std::optional<ExactSum> ExactSum::from(std::span<const std::int64_t, kWords> words) {
  ExactSum sum;
  for (std::size_t i = 0; i < sum.digits_.size(); ++i) {
    if (words[i] < 0 || words[i] >= std::int64_t{1} << kBits) return std::nullopt;
    sum.digits_[i] = static_cast<std::uint64_t>(words[i]);
  }
  sum.not_finite_ = std::bit_cast<double>(words.back());
  if (sum.not_finite_ != 0 && std::isfinite(sum.not_finite_)) return std::nullopt;
  if (std::signbit(sum.not_finite_) && !std::isnan(sum.not_finite_)) return std::nullopt;
  return sum;
}

void ExactSum::add(double number) {
  ROOKERY_CHECK(!(number < 0), "{} is added to a sum of what is not negative", number);
  if (!std::isfinite(number)) {
    not_finite_ += number;
    return;
  }
  if (number == 0) return;
  int exponent = 0;
  const double fraction = std::frexp(number, &exponent);  // a half or more, and less than 1
  constexpr int kMantissa = 53;
  auto mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, kMantissa));
  int lowest = exponent - kMantissa - kLowest;  // where its lowest bit goes
  if (lowest < 0) {                             // of a subnormal number the bits below are 0
    mantissa >>= -lowest;
    lowest = 0;
  }
  constexpr std::uint64_t kDigit = (std::uint64_t{1} << kBits) - 1;
  auto digit = static_cast<std::size_t>(lowest / kBits);
  const int shift = lowest % kBits;
  digits_[digit++] += (mantissa << shift) & kDigit;
  for (mantissa >>= kBits - shift; mantissa != 0; mantissa >>= kBits) digits_[digit++] += mantissa & kDigit;
  if (++added_ >= kMostAdded) carry();
}

void ExactSum::add(const ExactSum& other) {
  for (std::size_t i = 0; i < digits_.size(); ++i) digits_[i] += other.digits_[i];
  added_ += 1 + other.added_;
  not_finite_ += other.not_finite_;
  if (added_ >= kMostAdded) carry();
}

void ExactSum::carry() {
  std::uint64_t carried = 0;
  for (std::uint64_t& digit : digits_) {
    digit += carried;
    carried = digit >> kBits;
    digit &= (std::uint64_t{1} << kBits) - 1;
  }
  added_ = 0;
}

double ExactSum::value() const {
  if (not_finite_ != 0) return not_finite_;
  ExactSum carried = *this;
  carried.carry();
  double sum = 0;
  for (std::size_t i = 0; i < digits_.size(); ++i)
    sum += std::ldexp(static_cast<double>(carried.digits_[i]), static_cast<int>(i) * kBits + kLowest);
  return sum;
}

ExactSum::Words ExactSum::words() const {
  ExactSum carried = *this;
  carried.carry();
  Words words{};
  std::ranges::copy(carried.digits_, words.begin());
  // Every machine's "no number" is one.
  const double not_finite = std::isnan(not_finite_) ? std::nan("") : not_finite_;
  words.back() = std::bit_cast<std::int64_t>(not_finite);
  return words;
}

}  // namespace rookery
