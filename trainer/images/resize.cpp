#include "trainer/images/resize.hpp"

#include <algorithm>
#include <cmath>

#include "models/base/check.hpp"

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

}  // namespace

void ResizeWeights::set(std::int64_t old_size, double begin, double end, std::int64_t new_size) {
  const double scale = (end - begin) / static_cast<double>(new_size);
  const double support = std::max(scale, 1.0);  // of the triangle, on either side
  taps = static_cast<std::int64_t>(std::ceil(support)) * 2 + 1;
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

// Every row by itself.
void Resizer::rows(const Image& from, Image& to) {
  const auto channels = static_cast<std::size_t>(from.channels);
  const auto width = static_cast<std::size_t>(from.size.width);
  for (std::size_t y = 0; y < static_cast<std::size_t>(from.size.height); ++y) {
    const std::uint8_t* row = from.bytes.data() + y * width * channels;
    std::uint8_t* pixel = to.bytes.data() + y * static_cast<std::size_t>(to.size.width) * channels;
    for (std::size_t x = 0; x < weights_.first.size(); ++x, pixel += channels) {
      const std::uint8_t* old = row + static_cast<std::size_t>(weights_.first[x]) * channels;
      const std::int32_t* value = fixed_.data() + x * static_cast<std::size_t>(weights_.taps);
      std::int32_t sums[3] = {kHalf, kHalf, kHalf};
      for (std::int64_t k = 0; k < weights_.count[x]; ++k, old += channels)
        for (std::size_t channel = 0; channel < channels; ++channel) sums[channel] += old[channel] * value[k];
      for (std::size_t channel = 0; channel < channels; ++channel) pixel[channel] = rounded(sums[channel]);
    }
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
