// FNV-1a, 64 bits (Fowler, Noll and Vo, http://www.isthe.com/chongo/tech/comp/fnv/). What comes out stands in
// files (plan ids, digests of samples) and is the key of random numbers, so it never changes. It is no
// protection against who wants two texts alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rookery {

class Fnv1a {
 public:
  Fnv1a() = default;
  // Goes on where another one was.
  explicit Fnv1a(std::uint64_t value) : value_(value) {}

  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) add_unit(std::to_integer<std::uint64_t>(byte));
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  // A number as one unit, in place of its bytes; FNV-1a knows bytes only.
  void add_unit(std::uint64_t unit) { value_ = (value_ ^ unit) * kPrime; }

  std::uint64_t value() const { return value_; }

 private:
  static constexpr std::uint64_t kBasis = 0xcbf29ce484222325ULL;
  static constexpr std::uint64_t kPrime = 0x100000001b3ULL;
  std::uint64_t value_ = kBasis;
};

}  // namespace rookery
