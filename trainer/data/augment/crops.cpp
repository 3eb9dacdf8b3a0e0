// Steps that take a part of an image, mirror it, or give it another size.

#include <algorithm>
#include <cmath>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/data/augment/augment.hpp"
#include "trainer/images/resize.hpp"

namespace rookery {
namespace {

std::int64_t whole(const AugmentStep& step, const std::string& option) {
  return static_cast<std::int64_t>(option_of(step, option).front());
}

// The part `box` of each plane becomes `size`, weighted as Resizer does.
void resample(Planes& image, const Box& box, PlaneSize size) {
  thread_local ResizeWeights rows, columns;
  thread_local std::vector<float> between_rows, result;
  const auto [channels, height, width] = image.size;
  columns.set(width, box.left, box.right, size.width);
  rows.set(height, box.top, box.bottom, size.height);
  between_rows.resize(channels * height * size.width);
  result.assign(size.values(), 0);
  for (std::int64_t row = 0; row < channels * height; ++row) {
    const float* from = image.values.data() + row * width;
    float* to = between_rows.data() + row * size.width;
    for (std::size_t x = 0; x < columns.first.size(); ++x) {
      const double* weights = columns.values.data() + x * static_cast<std::size_t>(columns.taps);
      double sum = 0;
      for (std::int64_t k = 0; k < columns.count[x]; ++k) sum += weights[k] * from[columns.first[x] + k];
      to[x] = static_cast<float>(sum);
    }
  }
  for (std::int64_t row = 0; row < channels * size.height; ++row) {
    const auto y = static_cast<std::size_t>(row % size.height);
    float* to = result.data() + row * size.width;
    for (std::int64_t k = 0; k < rows.count[y]; ++k) {
      const auto weight = static_cast<float>(
          rows.values[y * static_cast<std::size_t>(rows.taps) + static_cast<std::size_t>(k)]);
      const float* from = between_rows.data() + (row / size.height * height + rows.first[y] + k) * size.width;
      for (std::int64_t x = 0; x < size.width; ++x) to[x] += weight * from[x];
    }
  }
  image.size = size;
  image.values.swap(result);
}

class Resize : public Augmenter {
 public:
  explicit Resize(const AugmentStep& step) : side_(whole(step, "size")) {}

  PlaneSize size_of(PlaneSize size) const override { return {size.channels, side_, side_}; }

  void apply(Planes& image, CounterRng* /*rng*/) const override {
    const auto [channels, height, width] = image.size;
    resample(image, {0, 0, static_cast<double>(width), static_cast<double>(height)}, size_of(image.size));
  }

 private:
  std::int64_t side_;
};

class RandomCrop : public Augmenter {
 public:
  explicit RandomCrop(const AugmentStep& step)
      : side_(whole(step, "size")), padding_(whole(step, "padding")) {}

  PlaneSize size_of(PlaneSize size) const override {
    // Without padding, as validation has it, too.
    if (side_ > size.height || side_ > size.width) {
      throw ConfigError(
          fmt::format("random_crop/size: {} is more than the image's {} x {}: give a larger image, or "
                      "a step \"resize\" before it",
                      side_, size.width, size.height));
    }
    return {size.channels, side_, side_};
  }

  void apply(Planes& image, CounterRng* rng) const override {
    const auto [channels, height, width] = image.size;
    std::int64_t top = (height - side_) / 2;
    std::int64_t left = (width - side_) / 2;
    if (rng != nullptr) {
      const auto place = [&](std::int64_t length) {
        const std::int64_t places = length + 2 * padding_ - side_ + 1;
        return static_cast<std::int64_t>(rng->next_below(static_cast<std::uint32_t>(places))) - padding_;
      };
      top = place(height);
      left = place(width);
    }
    thread_local std::vector<float> part;
    part.assign(channels * side_ * side_, 0);
    const std::int64_t first = std::max<std::int64_t>(left, 0);
    const std::int64_t end = std::min(left + side_, width);
    for (std::int64_t row = 0; row < channels * side_; ++row) {
      const std::int64_t y = top + row % side_;
      if (y < 0 || y >= height || first >= end) continue;
      const float* from = image.values.data() + (row / side_ * height + y) * width;
      std::copy(from + first, from + end, part.data() + row * side_ + first - left);
    }
    image.size = {channels, side_, side_};
    image.values.swap(part);
  }

 private:
  std::int64_t side_, padding_;
};

class RandomResizedCrop : public Augmenter {
 public:
  explicit RandomResizedCrop(const AugmentStep& step)
      : side_(whole(step, "size")),
        least_area_(option_of(step, "least_area").front()),
        most_ratio_(option_of(step, "most_ratio").front()) {}

  PlaneSize size_of(PlaneSize size) const override { return {size.channels, side_, side_}; }

  void apply(Planes& image, CounterRng* rng) const override {
    const auto height = static_cast<double>(image.size.height);
    const auto width = static_cast<double>(image.size.width);
    Box box{0, 0, width, height};
    if (rng != nullptr) {
      const double area = height * width * between(*rng, least_area_, 1);
      const double ratio = std::exp(between(*rng, -std::log(most_ratio_), std::log(most_ratio_)));
      const double part_width = std::min(width, std::sqrt(area * ratio));
      const double part_height = std::min(height, std::sqrt(area / ratio));
      box.left = (width - part_width) * between(*rng, 0, 1);
      box.top = (height - part_height) * between(*rng, 0, 1);
      box.right = std::min(width, box.left + part_width);
      box.bottom = std::min(height, box.top + part_height);
    }
    resample(image, box, size_of(image.size));
  }

 private:
  std::int64_t side_;
  double least_area_, most_ratio_;
};

class HorizontalFlip : public Augmenter {
 public:
  explicit HorizontalFlip(const AugmentStep& step) : share_(option_of(step, "share").front()) {}

  void apply(Planes& image, CounterRng* rng) const override {
    if (rng == nullptr || rng->next_float() >= static_cast<float>(share_)) return;
    const std::int64_t width = image.size.width;
    for (auto row = image.values.begin(); row != image.values.end(); row += width)
      std::reverse(row, row + width);
  }

 private:
  double share_;
};

class VerticalFlip : public Augmenter {
 public:
  explicit VerticalFlip(const AugmentStep& step) : share_(option_of(step, "share").front()) {}

  void apply(Planes& image, CounterRng* rng) const override {
    if (rng == nullptr || rng->next_float() >= static_cast<float>(share_)) return;
    const auto [channels, height, width] = image.size;
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const auto plane = image.values.begin() + channel * height * width;
      for (std::int64_t y = 0; y < height / 2; ++y)
        std::swap_ranges(plane + y * width, plane + (y + 1) * width, plane + (height - 1 - y) * width);
    }
  }

 private:
  double share_;
};

}  // namespace

std::vector<AugmentKind> crop_kinds() {
  const AugmentOption size{.name = "size",
                           .otherwise = {32},
                           .least = 1,
                           .most = 4096,
                           .help = "side of what comes of it",
                           .is_whole = true};
  const AugmentOption share{
      .name = "share", .otherwise = {0.5}, .least = 0, .most = 1, .help = "of the samples"};
  return {{.name = "resize",
           .help = "to another size, each pixel the weighted mean of those that it covers",
           .options = {size},
           .make = make_augmenter<Resize>},
          {.name = "random_crop",
           .help = "a square part of the image, around which there may be zeros; in validation the middle",
           .options = {size,
                       {.name = "padding",
                        .otherwise = {0},
                        .least = 0,
                        .most = 4096,
                        .help = "zeros on each side",
                        .is_whole = true}},
           .make = make_augmenter<RandomCrop>},
          {.name = "random_resized_crop",
           .help = "a part of the image, resized; in validation all of it",
           .options = {size,
                       {.name = "least_area",
                        .otherwise = {0.08},
                        .least = 0.001,
                        .most = 1,
                        .help = "least share of the image"},
                       {.name = "most_ratio",
                        .otherwise = {4.0 / 3},
                        .least = 1,
                        .most = 10,
                        .help = "most width over height of the part, or height over width"}},
           .make = make_augmenter<RandomResizedCrop>},
          {.name = "horizontal_flip",
           .help = "left and right change places",
           .options = {share},
           .make = make_augmenter<HorizontalFlip>},
          {.name = "vertical_flip",
           .help = "top and bottom change places",
           .options = {share},
           .make = make_augmenter<VerticalFlip>}};
}

}  // namespace rookery
