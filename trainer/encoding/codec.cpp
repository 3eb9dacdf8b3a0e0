#include "trainer/encoding/codec.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "models/base/check.hpp"
#include "models/kernels/fewer_bits.hpp"

namespace rookery {
namespace {

// Orders numbers by magnitude; NaN is above all others.
std::uint32_t magnitude_order(float number) {
  return std::bit_cast<std::uint32_t>(number) & 0x7FFF'FFFFU;
}

template <typename T>
void put(std::byte*& to, const T& value) {
  std::memcpy(to, &value, sizeof value);
  to += sizeof value;
}
template <typename T>
T take(const std::byte*& from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  from += sizeof value;
  return value;
}

// Whole numbers of so many bits each, one behind the other from the lowest bit on.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}
  void put(std::uint32_t value, int bits) {
    waiting_ |= static_cast<std::uint64_t>(value) << held_;
    for (held_ += bits; held_ >= 8; held_ -= 8, waiting_ >>= 8) *to_++ = static_cast<std::byte>(waiting_);
  }
  // Fills the last byte; where the next one is.
  std::byte* end() {
    if (held_ > 0) *to_++ = static_cast<std::byte>(waiting_);
    return to_;
  }

 private:
  std::byte* to_;
  std::uint64_t waiting_ = 0;
  int held_ = 0;
};

class BitReader {
 public:
  explicit BitReader(const std::byte* from) : from_(from) {}
  std::uint32_t take(int bits) {
    for (; held_ < bits; held_ += 8) waiting_ |= static_cast<std::uint64_t>(*from_++) << held_;
    const auto value = static_cast<std::uint32_t>(waiting_ & ((std::uint64_t{1} << bits) - 1));
    waiting_ >>= bits;
    held_ -= bits;
    return value;
  }
  const std::byte* end() const { return from_; }

 private:
  const std::byte* from_;
  std::uint64_t waiting_ = 0;
  int held_ = 0;
};

constexpr std::size_t bytes_of_bits(std::size_t bits) {
  return (bits + 7) / 8;
}

template <auto kEncode, auto kDecode>
class HalfCodec final : public Codec {
 public:
  std::size_t block() const override { return 1024; }
  std::size_t block_bytes(std::size_t numbers) const override { return numbers * sizeof(std::uint16_t); }

  void encode(std::span<const float> block, std::byte* bytes) override { kEncode(block, bytes); }
  void decode(const std::byte* bytes, std::span<float> block) const override { kDecode(bytes, block); }
};

// The unit by which the largest number is so many steps, as a float, and the steps of all.
void encode_steps(std::span<const float> numbers, int most, std::byte* unit_at, std::int8_t* steps) {
  float unit = largest_magnitude(numbers) / static_cast<float>(most);
  if (!std::isfinite(unit)) unit = std::numeric_limits<float>::quiet_NaN();
  put(unit_at, unit);
  if (unit > 0) {
    to_steps(numbers, unit, most, steps);
  } else {
    std::fill_n(steps, numbers.size(), std::int8_t{0});
  }
}

class Int8Codec final : public Codec {
 public:
  std::size_t block() const override { return 256; }
  std::size_t block_bytes(std::size_t numbers) const override { return sizeof(float) + numbers; }

  void encode(std::span<const float> block, std::byte* bytes) override {
    encode_steps(block, 127, bytes, reinterpret_cast<std::int8_t*>(bytes + sizeof(float)));
  }
  void decode(const std::byte* bytes, std::span<float> block) const override {
    const auto unit = take<float>(bytes);
    from_steps(reinterpret_cast<const std::int8_t*>(bytes), unit, block);
  }
};

class Int4Codec final : public Codec {
 public:
  std::size_t block() const override { return kBlock; }
  std::size_t block_bytes(std::size_t numbers) const override {
    return sizeof(float) + bytes_of_bits(4 * numbers);
  }

  // Two in a byte, eight more than they are, the first in the lower half.
  void encode(std::span<const float> block, std::byte* bytes) override {
    std::array<std::int8_t, kBlock + 1> steps;  // one more where they are odd
    encode_steps(block, 7, bytes, steps.data());
    steps[block.size()] = -8;
    bytes += sizeof(float);
    for (std::size_t i = 0; i < bytes_of_bits(4 * block.size()); ++i)
      bytes[i] = static_cast<std::byte>((steps[2 * i] + 8) | ((steps[2 * i + 1] + 8) << 4));
  }
  void decode(const std::byte* bytes, std::span<float> block) const override {
    const auto unit = take<float>(bytes);
    std::array<std::int8_t, kBlock + 1> steps;
    for (std::size_t i = 0; i < bytes_of_bits(4 * block.size()); ++i) {
      const auto pair = static_cast<int>(bytes[i]);
      steps[2 * i] = static_cast<std::int8_t>((pair & 15) - 8);
      steps[2 * i + 1] = static_cast<std::int8_t>((pair >> 4) - 8);
    }
    from_steps(steps.data(), unit, block);
  }

 private:
  static constexpr std::size_t kBlock = 128;
};

class TopKCodec final : public Codec {
 public:
  TopKCodec(double share, int value_bits) : share_(share), value_bits_(value_bits) {
    ROOKERY_CHECK(value_bits == 32 || value_bits == 8 || value_bits == 2, "{} bits", value_bits);
  }

  std::size_t block() const override { return kBlock; }
  std::size_t block_bytes(std::size_t numbers) const override {
    const std::size_t kept = kept_of(numbers);
    const std::size_t values = value_bits_ == 32  ? kept * sizeof(float)
                               : value_bits_ == 8 ? sizeof(float) + kept
                                                  : 2 * sizeof(float) + bytes_of_bits(2 * kept);
    return bytes_of_bits(kPlaceBits * kept) + values;
  }

  void encode(std::span<const float> block, std::byte* bytes) override {
    choose(block);
    BitWriter places(bytes);
    for (const std::uint16_t place : places_) places.put(place, kPlaceBits);
    bytes = places.end();
    if (value_bits_ == 32) {
      for (const float number : numbers_) put(bytes, number);
    } else if (value_bits_ == 8) {
      encode_steps(numbers_, 127, bytes, reinterpret_cast<std::int8_t*>(bytes + sizeof(float)));
    } else {
      encode_two_magnitudes(bytes);
    }
  }

  void decode(const std::byte* bytes, std::span<float> block) const override {
    std::ranges::fill(block, 0.0F);
    const std::size_t kept = kept_of(block.size());
    BitReader places(bytes);
    const std::byte* values = bytes + bytes_of_bits(kPlaceBits * kept);
    const float unit = value_bits_ == 8 ? take<float>(values) : 0;
    std::array<float, 2> magnitudes{};
    if (value_bits_ == 2) magnitudes = take<std::array<float, 2>>(values);
    BitReader pairs(values);
    for (std::size_t i = 0; i < kept; ++i) {
      const std::size_t place = places.take(kPlaceBits);
      if (place >= block.size()) continue;  // no encode() writes such
      if (value_bits_ == 32) {
        block[place] = take<float>(values);
      } else if (value_bits_ == 8) {
        block[place] = unit * static_cast<float>(take<std::int8_t>(values));
      } else {
        const std::uint32_t pair = pairs.take(2);
        block[place] = (pair & 2U) != 0 ? -magnitudes.at(pair & 1U) : magnitudes.at(pair & 1U);
      }
    }
  }

 private:
  static constexpr int kPlaceBits = 12;
  static constexpr int kClassShift = 20;
  static constexpr std::size_t kBlock = std::size_t{1} << kPlaceBits;

  std::size_t kept_of(std::size_t numbers) const {
    const double kept = std::ceil(share_ * static_cast<double>(numbers));
    return std::clamp<std::size_t>(static_cast<std::size_t>(kept), 1, numbers);
  }

  // The places of the largest, in order, and what is there; of equal ones the first.
  void choose(std::span<const float> block) {
    const std::size_t kept = kept_of(block.size());
    const std::uint32_t least = least_class(block, kept);
    ranks_.clear();
    for (std::size_t i = 0; i < block.size(); ++i) {
      const std::uint64_t magnitude = magnitude_order(block[i]);
      if (magnitude >> kClassShift >= least) ranks_.push_back(magnitude << kPlaceBits | (kBlock - 1 - i));
    }
    places_.resize(kept);
    std::ranges::nth_element(ranks_, ranks_.begin() + std::ssize(places_) - 1, std::greater{});
    std::transform(ranks_.begin(), ranks_.begin() + std::ssize(places_), places_.begin(),
                   [](std::uint64_t rank) { return static_cast<std::uint16_t>(kBlock - 1 - rank % kBlock); });
    std::ranges::sort(places_);
    numbers_.clear();
    for (const std::uint16_t place : places_) numbers_.push_back(block[place]);
  }

  // Magnitudes of one exponent and three more bits are a class: that of the smallest number which is kept.
  // Few others are left to be compared then.
  static std::uint32_t least_class(std::span<const float> block, std::size_t kept) {
    std::array<std::uint16_t, (1U << (31 - kClassShift))> counts{};
    for (const float number : block) ++counts[magnitude_order(number) >> kClassShift];
    std::size_t least = counts.size();
    for (std::size_t sum = 0; sum < kept; sum += counts[least]) --least;
    return static_cast<std::uint32_t>(least);
  }

  // Between the smallest and the largest magnitude: those of the lower half and of the upper half.
  void encode_two_magnitudes(std::byte* bytes) const {
    const auto [least, most] = std::ranges::minmax(numbers_, {}, magnitude_order);
    const float low = std::abs(least);
    const float quarter = (std::abs(most) - low) / 4;
    put(bytes, std::array<float, 2>{low + quarter, low + 3 * quarter});
    BitWriter pairs(bytes);
    for (const float number : numbers_) {
      const bool is_upper = std::abs(number) >= low + 2 * quarter;
      pairs.put((std::signbit(number) ? 2U : 0U) | (is_upper ? 1U : 0U), 2);
    }
    pairs.end();
  }

  const double share_;
  const int value_bits_;
  std::vector<std::uint64_t> ranks_;  // a number's magnitude, and below it how far its place is from the end
  std::vector<std::uint16_t> places_;
  std::vector<float> numbers_;
};

}  // namespace

std::unique_ptr<Codec> make_codec(const Compression& compression) {
  switch (compression.encoding) {
    case Encoding::kFloat32:
      return nullptr;
    case Encoding::kFloat16:
      return std::make_unique<HalfCodec<to_float16, from_float16>>();
    case Encoding::kBFloat16:
      return std::make_unique<HalfCodec<to_bfloat16, from_bfloat16>>();
    case Encoding::kInt8:
      return std::make_unique<Int8Codec>();
    case Encoding::kInt4:
      return std::make_unique<Int4Codec>();
    case Encoding::kTopK:
      return std::make_unique<TopKCodec>(compression.share, compression.value_bits);
  }
  ROOKERY_CHECK(false, "an unknown encoding");
}

}  // namespace rookery
