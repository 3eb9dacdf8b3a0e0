#include "trainer/images/resize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "models/base/check.hpp"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace rookery {
namespace {

// Pillow's: eight bits of the pixel and two to spare in 32.
constexpr int kBits = 32 - 8 - 2;
constexpr std::int32_t kHalf = 1 << (kBits - 1);

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kBits, 0, 255));
}

void to_fixed(const std::vector<double>& values, std::vector<std::int32_t>& fixed) {
  fixed.resize(values.size());
  std::ranges::transform(values, fixed.begin(), [](double value) {
    return static_cast<std::int32_t>(std::lround(value * (1 << kBits)));
  });
}

// One row of the result. May read `taps` pixels and kBehind bytes behind that which it is made of.
constexpr std::size_t kBehind = 2;
using ResizeRow = void(const ResizeWeights& weights, const std::vector<std::int32_t>& fixed,
                       const std::uint8_t* from, std::uint8_t* to);

// The number of channels is a constant, so that their sums are in registers.
template <std::size_t kChannels>
void resize_row(const ResizeWeights& weights, const std::vector<std::int32_t>& fixed,
                const std::uint8_t* from, std::uint8_t* to) {
  for (std::size_t x = 0; x < weights.first.size(); ++x, to += kChannels) {
    const std::uint8_t* old = from + static_cast<std::size_t>(weights.first[x]) * kChannels;
    const std::int32_t* value = fixed.data() + x * static_cast<std::size_t>(weights.taps);
    std::array<std::int32_t, kChannels> sums;
    sums.fill(kHalf);
    for (std::int64_t k = 0; k < weights.count[x]; ++k, old += kChannels)
      for (std::size_t channel = 0; channel < kChannels; ++channel) sums[channel] += old[channel] * value[k];
    std::ranges::transform(sums, to, rounded);
  }
}

#ifdef __x86_64__
// The same sums, those of two pixels in one vector: red, green, blue and nothing of each. All `taps` of a new
// pixel are added, so that every loop is as long.
[[gnu::target("avx2")]] void resize_colour_row_avx2(const ResizeWeights& weights,
                                                    const std::vector<std::int32_t>& fixed,
                                                    const std::uint8_t* from, std::uint8_t* to) {
  constexpr char kNone = -128;
  const __m256i channels = _mm256_setr_epi8(0, kNone, kNone, kNone, 1, kNone, kNone, kNone,      //
                                            2, kNone, kNone, kNone, kNone, kNone, kNone, kNone,  //
                                            3, kNone, kNone, kNone, 4, kNone, kNone, kNone,      //
                                            5, kNone, kNone, kNone, kNone, kNone, kNone, kNone);
  const __m256i pair = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const auto eight_bytes = [](const void* at) {
    std::int64_t bytes = 0;
    std::memcpy(&bytes, at, sizeof bytes);
    return bytes;
  };
  const std::int32_t* value = fixed.data();
  for (std::size_t x = 0; x < weights.first.size(); ++x, to += 3) {
    const std::uint8_t* old = from + 3 * static_cast<std::size_t>(weights.first[x]);
    __m256i sums = _mm256_setzero_si256();
    for (std::int64_t k = 0; k < weights.taps; k += 2, old += 6, value += 2) {
      const __m256i pixels = _mm256_shuffle_epi8(_mm256_set1_epi64x(eight_bytes(old)), channels);
      const __m256i both = _mm256_permutevar8x32_epi32(_mm256_set1_epi64x(eight_bytes(value)), pair);
      sums = _mm256_add_epi32(sums, _mm256_mullo_epi32(pixels, both));
    }
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    sum = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(kHalf)), kBits);
    const std::int32_t pixel = _mm_cvtsi128_si32(_mm_packus_epi16(_mm_packs_epi32(sum, sum), sum));
    std::memcpy(to, &pixel, 3);
  }
}
#endif

ResizeRow* resize_colour_row() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return resize_colour_row_avx2;
#endif
  return resize_row<3>;
}

}  // namespace

void ResizeWeights::set(std::int64_t old_size, double begin, double end, std::int64_t new_size) {
  const double scale = (end - begin) / static_cast<double>(new_size);
  const double support = std::max(scale, 1.0);  // of the triangle, on either side
  const auto most = static_cast<std::int64_t>(2 * support) + 1;
  taps = most + most % 2;
  first.resize(new_size);
  count.resize(first.size());
  values.assign(first.size() * static_cast<std::size_t>(taps), 0);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * scale;
    first[i] = std::max<std::int64_t>(std::lround(center - support), 0);
    count[i] = std::min<std::int64_t>(std::lround(center + support), old_size) - first[i];
    double* const run = values.data() + i * static_cast<std::size_t>(taps);
    double sum = 0;
    for (std::int64_t k = 0; k < count[i]; ++k) {
      const double away = (static_cast<double>(k + first[i]) - center + 0.5) * (1 / support);
      run[k] = std::max(0.0, 1 - std::abs(away));
      sum += run[k];
    }
    for (std::int64_t k = 0; k < count[i] && sum != 0; ++k) run[k] /= sum;
  }
}

// Every row by itself; the last ones, behind which a ResizeRow may not read, from a copy with room.
void Resizer::rows(const Image& from, Image& to) {
  const auto channels = static_cast<std::size_t>(from.channels);
  const std::size_t old_bytes = static_cast<std::size_t>(from.size.width) * channels;
  const std::size_t new_bytes = static_cast<std::size_t>(to.size.width) * channels;
  const std::size_t behind = static_cast<std::size_t>(weights_.taps) * channels + kBehind;
  last_row_.resize(old_bytes + behind);
  ResizeRow* const resized = channels == 1 ? resize_row<1> : resize_colour_row();
  for (std::size_t y = 0; y < static_cast<std::size_t>(from.size.height); ++y) {
    const std::uint8_t* row = from.bytes.data() + y * old_bytes;
    if ((y + 1) * old_bytes + behind > from.bytes.size()) {
      std::copy_n(row, old_bytes, last_row_.data());
      row = last_row_.data();
    }
    resized(weights_, fixed_, row, to.bytes.data() + y * new_bytes);
  }
}

// Row after row of the result, each the sum of rows.
void Resizer::columns(const Image& from, Image& to) {
  const auto width = static_cast<std::size_t>(from.size.width * from.channels);
  constexpr std::size_t kBlock = 256;
  for (std::size_t y = 0; y < weights_.first.size(); ++y) {
    const std::int32_t* value = fixed_.data() + y * static_cast<std::size_t>(weights_.taps);
    for (std::size_t x = 0; x < width; x += kBlock) {
      const std::size_t count = std::min(kBlock, width - x);
      std::int32_t sums[kBlock];
      std::fill_n(sums, count, kHalf);
      for (std::int64_t k = 0; k < weights_.count[y]; ++k) {
        const std::size_t row = static_cast<std::size_t>(weights_.first[y] + k);
        const std::uint8_t* old = from.bytes.data() + row * width + x;
        for (std::size_t i = 0; i < count; ++i) sums[i] += old[i] * value[k];
      }
      std::transform(sums, sums + count, to.bytes.data() + y * width + x, rounded);
    }
  }
}

void Resizer::resize(const Image& from, const Box& box, ImageSize size, Image& to) {
  ROOKERY_CHECK(box.left >= 0 && box.top >= 0 && box.right > box.left && box.bottom > box.top &&
                    box.right <= static_cast<double>(from.size.width) &&
                    box.bottom <= static_cast<double>(from.size.height),
                "a box from {}, {} to {}, {}", box.left, box.top, box.right, box.bottom);
  const auto give_room = [&](Image& image, ImageSize its) {
    image.size = its;
    image.channels = from.channels;
    image.bytes.resize(its.pixels() * from.channels);
  };
  give_room(between_, {size.width, from.size.height});
  give_room(to, size);
  weights_.set(from.size.width, box.left, box.right, size.width);
  to_fixed(weights_.values, fixed_);
  rows(from, between_);
  weights_.set(from.size.height, box.top, box.bottom, size.height);
  to_fixed(weights_.values, fixed_);
  columns(between_, to);
}

void Resizer::resize(const Image& from, ImageSize size, Image& to) {
  resize(from, {0, 0, static_cast<double>(from.size.width), static_cast<double>(from.size.height)}, size, to);
}

}  // namespace rookery
