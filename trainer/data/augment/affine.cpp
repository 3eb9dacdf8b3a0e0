#include "trainer/data/augment/affine.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rookery {
namespace {

// The place inside that a place of the mirrored plane shows: -1 is 0, and `length` is `length` - 1.
std::int64_t mirrored(std::int64_t place, std::int64_t length) {
  const std::int64_t period = 2 * length;
  const std::int64_t within = (place % period + period) % period;
  return within < length ? within : period - 1 - within;
}

class Rotation : public Augmenter {
 public:
  explicit Rotation(const AugmentStep& step) : degrees_(option_of(step, "degrees").front()) {}

  void apply(Planes& image, CounterRng* rng) const override {
    if (rng == nullptr) return;
    const double angle = between(*rng, -degrees_, degrees_) * std::numbers::pi / 180;
    apply_affine(
        {.xx = std::cos(angle), .xy = -std::sin(angle), .yx = std::sin(angle), .yy = std::cos(angle)}, image);
  }

 private:
  double degrees_;
};

class Translation : public Augmenter {
 public:
  explicit Translation(const AugmentStep& step)
      : horizontal_(option_of(step, "horizontal").front()), vertical_(option_of(step, "vertical").front()) {}

  void apply(Planes& image, CounterRng* rng) const override {
    if (rng == nullptr) return;
    const double dx = between(*rng, -horizontal_, horizontal_) * static_cast<double>(image.size.width);
    const double dy = between(*rng, -vertical_, vertical_) * static_cast<double>(image.size.height);
    apply_affine({.dx = dx, .dy = dy}, image);
  }

 private:
  double horizontal_, vertical_;
};

class Zoom : public Augmenter {
 public:
  explicit Zoom(const AugmentStep& step) : range_(option_of(step, "range").front()) {}

  void apply(Planes& image, CounterRng* rng) const override {
    if (rng == nullptr) return;
    const double factor = between(*rng, 1 - range_, 1 + range_);
    apply_affine({.xx = factor, .yy = factor}, image);
  }

 private:
  double range_;
};

}  // namespace

void apply_affine(const AffineMap& map, Planes& image) {
  thread_local std::vector<float> result;
  const auto [channels, height, width] = image.size;
  const std::int64_t plane = height * width;
  result.resize(image.values.size());
  const double middle_x = static_cast<double>(width - 1) / 2;
  const double middle_y = static_cast<double>(height - 1) / 2;
  for (std::int64_t row = 0; row < height; ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      const double to_x = static_cast<double>(column) - middle_x;
      const double to_y = static_cast<double>(row) - middle_y;
      const double x = map.xx * to_x + map.xy * to_y + map.dx + middle_x;
      const double y = map.yx * to_x + map.yy * to_y + map.dy + middle_y;
      const auto left = static_cast<std::int64_t>(std::floor(x));
      const auto top = static_cast<std::int64_t>(std::floor(y));
      const auto right_share = static_cast<float>(x - static_cast<double>(left));
      const auto lower_share = static_cast<float>(y - static_cast<double>(top));
      const std::int64_t x0 = mirrored(left, width);
      const std::int64_t x1 = mirrored(left + 1, width);
      const std::int64_t upper = mirrored(top, height) * width;
      const std::int64_t lower = mirrored(top + 1, height) * width;
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        const float* from = image.values.data() + channel * plane;
        const float above = from[upper + x0] + (from[upper + x1] - from[upper + x0]) * right_share;
        const float below = from[lower + x0] + (from[lower + x1] - from[lower + x0]) * right_share;
        result[channel * plane + row * width + column] = above + (below - above) * lower_share;
      }
    }
  }
  image.values.swap(result);
}

std::vector<AugmentKind> affine_kinds() {
  const auto share = [](const std::string& name, const std::string& help) {
    return AugmentOption{.name = name, .otherwise = {0.1}, .least = 0, .most = 0.9, .help = help};
  };
  return {{.name = "rotation",
           .help = "by an angle from -degrees to degrees; what comes in from outside is the image, mirrored",
           .options = {{.name = "degrees", .otherwise = {10}, .least = 0, .most = 180, .help = "most"}},
           .make = make_augmenter<Rotation>},
          {.name = "translation",
           .help = "to the sides and up and down; what comes in from outside is the image, mirrored",
           .options = {share("horizontal", "most, as a share of the width"),
                       share("vertical", "most, as a share of the height")},
           .make = make_augmenter<Translation>},
          {.name = "zoom",
           .help = "1 - range to 1 + range of the image's sides become the image",
           .options = {share("range", "of what is seen")},
           .make = make_augmenter<Zoom>}};
}

}  // namespace rookery
