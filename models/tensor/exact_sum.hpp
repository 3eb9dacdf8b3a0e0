// A sum of numbers without rounding: in whatever order and in whatever parts they are added, it is the same.
// It is kept as an integer of as many bits as any sum of doubles has (U. Kulisch, "Computer Arithmetic and
// Validity", 2008: the long accumulator).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace rookery {

class ExactSum {
 public:
  // Words that hold a sum of its own, for others to be sent.
  static constexpr std::size_t kWords = 69;
  using Words = std::array<std::int64_t, kWords>;

  ExactSum() = default;
  // What words() has given; nothing where these cannot have come from there.
  static std::optional<ExactSum> from(std::span<const std::int64_t, kWords> words);

  // Not negative, or no number. Infinity and what is no number make the sum so.
  void add(double number);
  void add(const ExactSum& other);

  // The nearest double but for an error in the last place; the same on every machine.
  double value() const;
  // The same for every order of adding.
  Words words() const;

 private:
  static constexpr int kBits = 32;       // of a digit; the rest of its word is room for carries
  static constexpr int kLowest = -1074;  // the lowest bit's exponent: that of the least double
  static constexpr std::uint64_t kMostAdded = 1U << 30;  // before carries leave their room

  void carry();

  std::array<std::uint64_t, kWords - 1> digits_{};  // the lowest first
  std::uint64_t added_ = 0;                         // since the last carry()
  double not_finite_ = 0;                           // infinity or no number, once one was added
};

}  // namespace rookery
