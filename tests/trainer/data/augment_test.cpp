// Augmentation: what each step does, and that nothing but seed, epoch and sample decide on it.
#include "trainer/data/augment/augment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/base/error.hpp"
#include "models/base/named_rows.hpp"
#include "tests/support/gathered.hpp"
#include "tests/support/problem.hpp"
#include "trainer/data/augment/affine.hpp"
#include "trainer/data/augment/augmented_dataset.hpp"
#include "trainer/images/resize.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kHeight = 4;
constexpr std::int64_t kWidth = 6;
constexpr std::size_t kValues = 2 * kHeight * kWidth;

// 100 images of two channels whose values are all different, from 1 on.
class Pictures : public Dataset {
 public:
  explicit Pictures(bool has_answers = true) {
    if (!has_answers) tensors_.erase("answers");
  }
  std::int64_t size() const override { return 100; }
  const ValueTypes& tensors() const override { return tensors_; }
  std::int64_t bytes() const override { return 0; }
  void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (name == kLabels) into.as<std::int64_t>()[i] = ids[i];
      if (name == "answers") into.as<float>()[i] = static_cast<float>(ids[i] % 2);
      if (name == "input") {
        for (std::size_t k = 0; k < kValues; ++k)
          into.as<float>()[i * kValues + k] = static_cast<float>(k + 1) + static_cast<float>(ids[i]) / 64;
      }
    }
  }

 private:
  ValueTypes tensors_{{"input", {DType::kF32, {kBatch, 2, kHeight, kWidth}}},
                      {"answers", {DType::kF32, {kBatch, 1}}},
                      {kLabels, {DType::kI64, {kBatch}}}};
};

const std::vector<std::int64_t> kOrder{7, 3, 50, 8};

std::vector<float> trained(const Dataset& dataset, std::int64_t id, std::int64_t epoch = 0,
                           std::uint64_t seed = 1, const std::string& name = "input") {
  Tensor tensor(DType::kF32, dataset.tensors().at(name).shape.with_batch(1));
  dataset.gather_training(name, std::span(&id, 1), {seed, epoch, kOrder}, tensor.view());
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

std::unique_ptr<Dataset> with(const std::vector<AugmentStep>& steps) {
  return augmented(std::make_unique<Pictures>(), steps);
}

std::vector<float> plain(std::int64_t id) {
  return gathered<float>(Pictures(), "input", {id});
}

std::vector<AugmentStep> all_steps() {
  std::vector<AugmentStep> steps;
  for (const AugmentKind& kind : augment_kinds()) {
    steps.push_back({kind.name, {}});
    if (find_row(kind.options, "size") != nullptr)
      steps.back().options["size"] = {kind.name == "cutout" ? 2.0 : 4.0};
  }
  return steps;
}

TEST(Augment, IsAFunctionOfSeedEpochAndSample) {
  const auto one = with(all_steps());
  const auto other = with(all_steps());
  for (const std::int64_t id : kOrder) {
    const std::vector<float> first = trained(*one, id, 3);
    trained(*one, id + 1, 5);
    EXPECT_EQ(trained(*one, id, 3), first);
    EXPECT_EQ(trained(*other, id, 3), first);
    EXPECT_NE(trained(*one, id, 4), first);
    EXPECT_NE(trained(*one, id, 3, 2), first);
  }
}

TEST(Augment, EveryKindChangesTrainingAndTheRandomOnesNothingElse) {
  for (const AugmentStep& step : all_steps()) {
    const auto dataset = with({step});
    bool changes = false;
    for (std::int64_t epoch = 0; epoch < 20; ++epoch) changes |= trained(*dataset, 3, epoch) != plain(3);
    EXPECT_TRUE(changes || step.name == "rescale") << step.name;
    const bool is_for_both = step.name == "rescale" || step.name == "normalize" || step.name == "resize";
    if (is_for_both || step.name.starts_with("random")) continue;
    EXPECT_EQ(gathered<float>(*dataset, "input", {3, 50}), gathered<float>(Pictures(), "input", {3, 50}))
        << step.name;
  }
}

TEST(Augment, LeavesLabelsAsTheyAre) {
  const auto dataset = with(all_steps());
  EXPECT_THAT(gathered<std::int64_t>(*dataset, kLabels, {5, 99}), ElementsAre(5, 99));
}

TEST(Augment, RescalesAndNormalizes) {
  const auto dataset = with(
      {{"rescale", {{"scale", {2}}, {"offset", {-1}}}}, {"normalize", {{"mean", {1, 0}}, {"std", {0.5}}}}});
  for (const std::vector<float>& image : {gathered<float>(*dataset, "input", {3}), trained(*dataset, 3)}) {
    for (std::size_t i = 0; i < kValues; ++i) {
      const float mean = i < kValues / 2 ? 1 : 0;
      ASSERT_FLOAT_EQ(image[i], (2 * plain(3)[i] - 1 - mean) / 0.5F);
    }
  }
  EXPECT_THAT(problem<ConfigError>([] {
                with({{"normalize", {{"mean", {1, 2, 3}}}}});
              }),
              AllOf(HasSubstr("augment: normalize/mean: 3 numbers"), HasSubstr("2 channels")));
}

TEST(Augment, FlipsTheShareThatIsAskedFor) {
  const auto all = with({{"horizontal_flip", {{"share", {1}}}}, {"vertical_flip", {{"share", {1}}}}});
  std::vector<float> turned = plain(3);
  for (std::size_t plane = 0; plane < 2; ++plane) {
    const auto begin = turned.begin() + static_cast<std::ptrdiff_t>(plane * kValues / 2);
    std::reverse(begin, begin + kHeight * kWidth);
  }
  EXPECT_EQ(trained(*all, 3), turned);
  const auto half = with({{"horizontal_flip", {}}});
  int flipped = 0;
  for (std::int64_t epoch = 0; epoch < 1000; ++epoch) flipped += trained(*half, 3, epoch) != plain(3) ? 1 : 0;
  EXPECT_NEAR(flipped, 500, 60);
}

TEST(Augment, CropsAWindowAndInValidationTheMiddle) {
  const auto dataset = with({{"random_crop", {{"size", {4}}, {"padding", {1}}}}});
  EXPECT_EQ(dataset->tensors().at("input").shape, (Shape{kBatch, 2, 4, 4}));
  const auto window = [](std::int64_t top, std::int64_t left) {
    std::vector<float> values;
    for (std::int64_t row = 0; row < 2 * 4; ++row) {
      for (std::int64_t x = left; x < left + 4; ++x) {
        const std::int64_t y = top + row % 4;
        const bool is_inside = y >= 0 && y < kHeight && x >= 0 && x < kWidth;
        values.push_back(is_inside ? plain(3)[(row / 4 * kHeight + y) * kWidth + x] : 0);
      }
    }
    return values;
  };
  EXPECT_EQ(gathered<float>(*dataset, "input", {3}), window(0, 1));
  std::vector<std::vector<float>> windows;
  for (std::int64_t top = -1; top <= 1; ++top) {
    for (std::int64_t left = -1; left <= 3; ++left) windows.push_back(window(top, left));
  }
  std::vector<int> seen(windows.size());
  for (std::int64_t epoch = 0; epoch < 600; ++epoch) {
    const auto found = std::ranges::find(windows, trained(*dataset, 3, epoch));
    ASSERT_NE(found, windows.end());
    ++seen[found - windows.begin()];
  }
  EXPECT_THAT(seen, Each(testing::Gt(15))) << "of 600 in 15 places";
  EXPECT_THAT(problem<ConfigError>([] {
                with({{"random_crop", {{"size", {5}}}}});
              }),
              HasSubstr("5 is more than the image's 6 x 4"));
}

// Padding may be more than the crop's side, so that nothing of the image is seen.
TEST(Augment, CropsBesideTheImageAreZeros) {
  const auto dataset = with({{"random_crop", {{"size", {2}}, {"padding", {5}}}}});
  int empty = 0;
  for (std::int64_t epoch = 0; epoch < 300; ++epoch)
    if (std::ranges::all_of(trained(*dataset, 3, epoch), [](float value) { return value == 0; })) ++empty;
  EXPECT_GT(empty, 100);
  EXPECT_LT(empty, 300);
}

TEST(Augment, ResizesAsImagesAreResized) {
  Image image{.size = {kWidth, kHeight}, .channels = 1, .bytes = {}};
  Planes planes{.size = {1, kHeight, kWidth}, .values = {}};
  for (int i = 0; i < kHeight * kWidth; ++i) {
    image.bytes.push_back(static_cast<std::uint8_t>(i * 37 % 256));
    planes.values.push_back(static_cast<float>(image.bytes.back()));
  }
  for (const double side : {2.0, 3.0, 9.0}) {
    const auto step = find_row(augment_kinds(), "resize")->make({"resize", {{"size", {side}}}});
    Planes resized = planes;
    step->apply(resized, nullptr);
    Image expected;
    const auto whole = static_cast<std::int64_t>(side);
    Resizer().resize(image, {whole, whole}, expected);
    for (std::size_t i = 0; i < expected.bytes.size(); ++i)
      ASSERT_NEAR(resized.values[i], expected.bytes[i], 1.1) << "rounded twice, for rows and for columns";
  }
}

TEST(Augment, ResizedCropsAreOfTheAreaAndRatioThatAreAskedFor) {
  // Where the image is a slope, what is seen tells the box.
  const auto step = find_row(augment_kinds(), "random_resized_crop")
                        ->make({"random_resized_crop", {{"size", {2}}, {"least_area", {0.25}}}});
  Planes slope{.size = {2, 100, 100}, .values = std::vector<float>(20000)};
  for (std::size_t i = 0; i < 10000; ++i) {
    slope.values[i] = static_cast<float>(i % 100);
    const std::size_t row = i / 100;
    slope.values[10000 + i] = static_cast<float>(row);
  }
  Planes whole = slope;
  step->apply(whole, nullptr);
  for (std::uint64_t stream = 0; stream < 300; ++stream) {
    CounterRng rng(rng_key(1, "test"), stream);
    Planes part = slope;
    step->apply(part, &rng);
    const double width = 100.0 * (part.values[1] - part.values[0]) / (whole.values[1] - whole.values[0]);
    const double height = 100.0 * (part.values[6] - part.values[4]) / (whole.values[6] - whole.values[4]);
    EXPECT_GT(width * height, 0.22 * 10000);
    EXPECT_LT(width * height, 1.05 * 10000);
    EXPECT_LT(width / height, 1.45);
    EXPECT_GT(width / height, 1 / 1.45);
  }
}

Planes counted(std::int64_t height, std::int64_t width) {
  Planes image{.size = {1, height, width},
               .values = std::vector<float>(static_cast<std::size_t>(height * width))};
  std::iota(image.values.begin(), image.values.end(), 1.0F);
  return image;
}

TEST(Augment, AQuarterTurnMovesEveryPixelToItsPlace) {
  Planes image = counted(3, 3);
  apply_affine({.xx = 0, .xy = -1, .yx = 1, .yy = 0}, image);
  EXPECT_THAT(image.values, ElementsAre(3, 6, 9, 2, 5, 8, 1, 4, 7));
}

TEST(Augment, WhatComesInFromOutsideIsMirrored) {
  Planes image = counted(1, 4);
  apply_affine({.dx = 2}, image);
  EXPECT_THAT(image.values, ElementsAre(3, 4, 4, 3));
  image = counted(1, 4);
  apply_affine({.dx = -0.5}, image);
  EXPECT_THAT(image.values, ElementsAre(1, 1.5, 2.5, 3.5));
  image = counted(1, 4);
  apply_affine({.dx = 9}, image);
  EXPECT_THAT(image.values, ElementsAre(2, 3, 4, 4)) << "a period of eight further";
}

TEST(Augment, ZoomsAroundTheMiddle) {
  Planes image = counted(1, 5);
  apply_affine({.xx = 0.5, .yy = 0.5}, image);
  EXPECT_THAT(image.values, ElementsAre(2, 2.5, 3, 3.5, 4));
}

TEST(Augment, BrightnessAndContrastKeepWhatTheySay) {
  const std::vector<float> before = plain(3);
  const auto brightness = with({{"brightness", {{"range", {0.3}}}}});
  const auto contrast = with({{"contrast", {{"range", {0.3}}}}});
  const float mean = std::accumulate(before.begin(), before.end(), 0.0F) / static_cast<float>(kValues);
  float least = 2;
  float most = 0;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    const std::vector<float> brighter = trained(*brightness, 3, epoch);
    const float factor = brighter[0] / before[0];
    least = std::min(least, factor);
    most = std::max(most, factor);
    const std::vector<float> stronger = trained(*contrast, 3, epoch);
    const float spread = (stronger[0] - mean) / (before[0] - mean);
    EXPECT_NEAR(spread, 1, 0.301);
    for (std::size_t i = 0; i < kValues; ++i) {
      ASSERT_NEAR(brighter[i], factor * before[i], 1e-3);
      ASSERT_NEAR(stronger[i], mean + (before[i] - mean) * spread, 1e-2);
    }
  }
  EXPECT_NEAR(least, 0.7, 0.02);
  EXPECT_NEAR(most, 1.3, 0.02);
}

TEST(Augment, CutsASquareOut) {
  const auto dataset = with({{"cutout", {{"size", {2}}, {"value", {-1}}}}});
  for (std::int64_t epoch = 0; epoch < 100; ++epoch) {
    const std::vector<float> image = trained(*dataset, 3, epoch);
    std::vector<std::size_t> cut;
    for (std::size_t i = 0; i < kValues / 2; ++i) {
      EXPECT_EQ(image[i] == -1, image[i + kValues / 2] == -1) << "in all channels";
      if (image[i] == -1) cut.push_back(i);
    }
    ASSERT_THAT(cut.size(), testing::AnyOf(1, 2, 4));
    EXPECT_LE(cut.back() / kWidth - cut.front() / kWidth, 1U);
    EXPECT_LE(cut.back() % kWidth - cut.front() % kWidth, 1U);
  }
}

TEST(Augment, MixesSamplesAndTheirTargetsInTheSameProportion) {
  const auto dataset = with({{"mixup", {{"alpha", {1}}}}});
  int mixed = 0;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    const float answer = trained(*dataset, 7, epoch, 1, "answers").front();
    const std::vector<float> image = trained(*dataset, 7, epoch);
    ASSERT_GE(answer, 0);
    ASSERT_LE(answer, 1);
    if (answer == 1) continue;  // with a sample that has the same
    ++mixed;
    // 7 and 3 have the answer 1, 50 and 8 have 0.
    bool is_mixture = false;
    for (const std::int64_t other : {50, 8}) {
      bool is_this = true;
      for (std::size_t i = 0; i < kValues; ++i)
        is_this =
            is_this && std::abs(image[i] - (answer * plain(7)[i] + (1 - answer) * plain(other)[i])) < 1e-3;
      is_mixture = is_mixture || is_this;
    }
    ASSERT_TRUE(is_mixture) << epoch;
  }
  EXPECT_NEAR(mixed, 100, 30);
  EXPECT_THAT(problem<ConfigError>([] {
                augmented(std::make_unique<Pictures>(false), {{"mixup", {}}});
              }),
              HasSubstr("needs targets of floats"));
  EXPECT_THAT(problem<ConfigError>([] {
                with({{"mixup", {}}, {"cutout", {}}});
              }),
              HasSubstr("\"cutout\" follows \"mixup\""));
}

TEST(Augment, NeedsImages) {
  class Numbers : public Pictures {
   public:
    const ValueTypes& tensors() const override { return tensors_; }

   private:
    ValueTypes tensors_{{"input", {DType::kF32, {kBatch, 64}}}};
  };
  EXPECT_THAT(problem<ConfigError>([] {
                augmented(std::make_unique<Numbers>(), {{"cutout", {}}});
              }),
              HasSubstr("augment: the data set has no images"));
}

}  // namespace
}  // namespace rookery
