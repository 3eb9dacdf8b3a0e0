// Steps that change values in their places.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/data/augment/augment.hpp"

namespace rookery {
namespace {

class Rescale : public Augmenter {
 public:
  explicit Rescale(const AugmentStep& step)
      : scale_(static_cast<float>(option_of(step, "scale").front())),
        offset_(static_cast<float>(option_of(step, "offset").front())) {}

  void apply(Planes& image, CounterRng* /*rng*/) const override {
    for (float& value : image.values) value = value * scale_ + offset_;
  }

 private:
  float scale_, offset_;
};

class Normalize : public Augmenter {
 public:
  explicit Normalize(const AugmentStep& step)
      : mean_(option_of(step, "mean")), std_(option_of(step, "std")) {}

  PlaneSize size_of(PlaneSize size) const override {
    for (const auto& [name, numbers] : {std::pair("mean", &mean_), std::pair("std", &std_)}) {
      if (numbers->size() != 1 && std::ssize(*numbers) != size.channels) {
        throw ConfigError(
            fmt::format("normalize/{}: {} numbers for an image of {} channels: give one for all, or "
                        "one for each",
                        name, numbers->size(), size.channels));
      }
    }
    return size;
  }

  void apply(Planes& image, CounterRng* /*rng*/) const override {
    const std::size_t plane = image.values.size() / static_cast<std::size_t>(image.size.channels);
    for (std::size_t i = 0; i < image.values.size(); ++i) {
      const std::size_t channel = i / plane;
      image.values[i] = (image.values[i] - of_channel(mean_, channel)) / of_channel(std_, channel);
    }
  }

 private:
  static float of_channel(const std::vector<double>& numbers, std::size_t channel) {
    return static_cast<float>(numbers[numbers.size() == 1 ? 0 : channel]);
  }

  std::vector<double> mean_, std_;
};

// A factor from 1 - range to 1 + range.
class Brightness : public Augmenter {
 public:
  explicit Brightness(const AugmentStep& step) : range_(option_of(step, "range").front()) {}

  void apply(Planes& image, CounterRng* rng) const override {
    if (rng == nullptr) return;
    const float factor = between(*rng, 1 - range_, 1 + range_);
    for (float& value : image.values) value *= factor;
  }

 private:
  double range_;
};

class Contrast : public Augmenter {
 public:
  explicit Contrast(const AugmentStep& step) : range_(option_of(step, "range").front()) {}

  void apply(Planes& image, CounterRng* rng) const override {
    if (rng == nullptr) return;
    const float factor = between(*rng, 1 - range_, 1 + range_);
    const double sum = std::accumulate(image.values.begin(), image.values.end(), 0.0);
    const auto mean = static_cast<float>(sum / static_cast<double>(image.values.size()));
    for (float& value : image.values) value = mean + (value - mean) * factor;
  }

 private:
  double range_;
};

class Cutout : public Augmenter {
 public:
  explicit Cutout(const AugmentStep& step)
      : side_(static_cast<std::int64_t>(option_of(step, "size").front())),
        value_(static_cast<float>(option_of(step, "value").front())) {}

  // Its middle is anywhere in the image, so that a part of the square may lie outside.
  void apply(Planes& image, CounterRng* rng) const override {
    if (rng == nullptr) return;
    const auto [channels, height, width] = image.size;
    const auto run = [&](std::int64_t length) {
      const std::int64_t first =
          static_cast<std::int64_t>(rng->next_below(static_cast<std::uint32_t>(length))) - side_ / 2;
      return std::pair(std::max<std::int64_t>(first, 0), std::min(first + side_, length));
    };
    const auto [top, bottom] = run(height);
    const auto [left, right] = run(width);
    for (std::int64_t row = 0; row < channels * height; ++row) {
      if (row % height < top || row % height >= bottom) continue;
      std::fill(image.values.begin() + row * width + left, image.values.begin() + row * width + right,
                value_);
    }
  }

 private:
  std::int64_t side_;
  float value_;
};

}  // namespace

std::vector<AugmentKind> value_kinds() {
  constexpr double kMost = 1e6;
  constexpr std::size_t kChannels = 64;
  const AugmentOption range{
      .name = "range", .otherwise = {0.2}, .least = 0, .most = 1, .help = "of the factor"};
  return {
      {.name = "rescale",
       .help = "values times scale, plus offset",
       .options = {{.name = "scale", .otherwise = {1}, .least = -kMost, .most = kMost, .help = "factor"},
                   {.name = "offset", .otherwise = {0}, .least = -kMost, .most = kMost, .help = "is added"}},
       .make = make_augmenter<Rescale>},
      {.name = "normalize",
       .help = "values less mean, over std",
       .options = {{.name = "mean",
                    .otherwise = {0.5},
                    .least = -kMost,
                    .most = kMost,
                    .help = "of all channels, or of each",
                    .numbers = kChannels},
                   {.name = "std",
                    .otherwise = {0.5},
                    .least = 1e-6,
                    .most = kMost,
                    .help = "of all channels, or of each",
                    .numbers = kChannels}},
       .make = make_augmenter<Normalize>},
      {.name = "brightness",
       .help = "values times a factor from 1 - range to 1 + range",
       .options = {range},
       .make = make_augmenter<Brightness>},
      {.name = "contrast",
       .help = "the difference of values from their mean times a factor from 1 - range to 1 + range",
       .options = {range},
       .make = make_augmenter<Contrast>},
      {.name = "cutout",
       .help = "a square somewhere, of which a part may lie outside, gets one value (arXiv 1708.04552)",
       .options =
           {{.name = "size", .otherwise = {8}, .least = 1, .most = 4096, .help = "side", .is_whole = true},
            {.name = "value", .otherwise = {0}, .least = -kMost, .most = kMost, .help = "of the square"}},
       .make = make_augmenter<Cutout>}};
}

}  // namespace rookery
