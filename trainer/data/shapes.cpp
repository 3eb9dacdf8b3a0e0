// "shapes": color images of one shape each on a noisy ground; its kind and color tell the class, place and
// size are chance.
#include <array>
#include <cmath>
#include <cstdlib>

#include "trainer/data/formats.hpp"
#include "trainer/data/generated.hpp"

namespace rookery {
namespace {

struct ShapesOptions {
  std::int64_t samples;
  std::int64_t image_size;
  std::int64_t classes;
  std::uint64_t seed;
};

enum class Kind : std::uint8_t { kDisc, kSquare, kRing, kCross, kDiamond };
constexpr std::int64_t kKinds = 5;

// At (x, y), measured from its middle in its radius.
bool covers(Kind kind, float x, float y) {
  const float dx = std::abs(x);
  const float dy = std::abs(y);
  switch (kind) {
    case Kind::kDisc:
      return x * x + y * y < 1;
    case Kind::kSquare:
      return dx < 0.9F && dy < 0.9F;
    case Kind::kRing:
      return x * x + y * y < 1 && x * x + y * y > 0.4F;
    case Kind::kCross:
      return (dx < 0.3F && dy < 1) || (dy < 0.3F && dx < 1);
    case Kind::kDiamond:
      return dx + dy < 1;
  }
  return false;
}

// Red, green and blue of the colors number 0, 1, 2, …: each as far from those before as the golden section of
// the color circle allows.
std::array<float, 3> color_of(std::int64_t number) {
  const double turn = std::fmod(0.618033988749895 * static_cast<double>(number), 1.0);
  std::array<float, 3> color{};
  for (std::size_t channel = 0; channel < color.size(); ++channel) {
    const double away = std::abs(std::fmod(turn + static_cast<double>(channel) / 3 + 0.5, 1.0) - 0.5);
    color[channel] = static_cast<float>(1 - 2 * away);
  }
  return color;
}

class Shapes : public GeneratedDataset {
 public:
  explicit Shapes(const ShapesOptions& options)
      : GeneratedDataset(options.samples, types(options)),
        options_(options),
        key_(rng_key(options.seed, "shapes")) {}

 private:
  static ValueTypes types(const ShapesOptions& options) {
    ValueTypes all{{"input", {DType::kF32, {kBatch, 3, options.image_size, options.image_size}}},
                   {kLabels, {DType::kI64, {kBatch}}}};
    if (options.classes == 2) all.emplace("answers", TensorType{DType::kF32, {kBatch, 1}});
    return all;
  }

  void draw(std::int64_t id, const std::string& name, TensorView into) const override {
    CounterRng rng(key_, static_cast<std::uint64_t>(id));
    const std::int64_t label = rng.next_below(static_cast<std::uint32_t>(options_.classes));
    if (name == kLabels) {
      into.as<std::int64_t>()[0] = label;
    } else if (name == "answers") {
      into.as<float>()[0] = static_cast<float>(label);
    } else {
      paint(label, rng, into.as<float>());
    }
  }

  void paint(std::int64_t label, CounterRng& rng, std::span<float> pixels) const {
    constexpr float kNoise = 0.3F;
    const auto kind = static_cast<Kind>(label % kKinds);
    const std::array<float, 3> color = color_of(label / kKinds);
    const float radius = 0.2F + 0.2F * rng.next_float();  // all in widths of the image
    const float middle_x = radius + (1 - 2 * radius) * rng.next_float();
    const float middle_y = radius + (1 - 2 * radius) * rng.next_float();
    const std::int64_t size = options_.image_size;
    std::size_t i = 0;
    for (const float brightness : color) {
      for (std::int64_t y = 0; y < size; ++y) {
        for (std::int64_t x = 0; x < size; ++x, ++i) {
          const auto at = [&](std::int64_t place, float middle) {
            return ((static_cast<float>(place) + 0.5F) / static_cast<float>(size) - middle) / radius;
          };
          const float ground = covers(kind, at(x, middle_x), at(y, middle_y)) ? brightness : 0;
          pixels[i] = (1 - kNoise) * ground + kNoise * rng.next_float();
        }
      }
    }
  }

  ShapesOptions options_;
  RngKey key_;
};

std::unique_ptr<Dataset> open_shapes(NamedOptions& options, const DataPlace& /*place*/) {
  const ShapesOptions shapes{.samples = options.integer("samples", 5000, 1, 1 << 24),
                             .image_size = options.integer("image_size", 32, 1, 4096),
                             .classes = options.integer("classes", 10, 2, 100000),
                             .seed = static_cast<std::uint64_t>(options.integer("seed", 0, 0, 1LL << 53))};
  options.expect_none_left();
  return std::make_unique<Shapes>(shapes);
}

}  // namespace

DataFormat shapes_format() {
  return {.name = "shapes",
          .pattern = "shapes([?].*)?$",
          .help =
              "`input` f32[3, image_size, image_size] from 0 to 1, `labels`; of two classes also "
              "`answers` f32[1], 1 for the second: images of one shape each, whose kind and color "
              "tell the class. Options: `samples=5000`, `image_size=32`, `classes=10`, `seed=0`",
          .open = open_shapes};
}

}  // namespace rookery
