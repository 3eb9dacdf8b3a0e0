// Images of all kinds against Pillow (tests/golden/make_images.py).
#include "trainer/images/image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "tests/support/repository.hpp"
#include "trainer/images/resize.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

constexpr ImageSize kWhole{10000, 10000};  // nothing is to be scaled down

std::string content_of(const std::string& name) {
  return read_file(kGolden / "images" / name, 1 << 24);
}

std::span<const std::byte> bytes_of(const std::string& content) {
  return std::as_bytes(std::span(content));
}

Image decoded(const std::string& name, ImageSize wanted = kWhole) {
  Image image;
  decode_image(bytes_of(content_of(name)), wanted, image);
  return image;
}

std::string problem_of(const std::string& content) {
  Image image;
  try {
    decode_image(bytes_of(content), kWhole, image);
  } catch (const DataError& error) {
    return error.what();
  }
  return "none";
}

const StateDict& golden() {
  static const StateDict tensors = read_safetensors(kGolden / "images.safetensors").tensors;
  return tensors;
}

int largest_difference(const Image& image, const Tensor& expected) {
  const auto wanted = expected.as<std::uint8_t>();
  EXPECT_EQ(image.bytes.size(), wanted.size());
  int largest = 0;
  for (std::size_t i = 0; i < std::min(wanted.size(), image.bytes.size()); ++i)
    largest = std::max(largest, std::abs(image.bytes[i] - wanted[i]));
  return largest;
}

std::vector<std::string> small_images() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden / "images")) {
    if (entry.path().stem() != "large") names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST(Images, AreReadAsPillowReadsThem) {
  ASSERT_EQ(small_images().size(), 13U);
  for (const std::string& name : small_images()) {
    Image image = decoded(name);
    EXPECT_EQ(image.size, (ImageSize{45, 37})) << name;
    EXPECT_EQ(image_size(bytes_of(content_of(name))), image.size);
    EXPECT_LE(largest_difference(image, golden().at(name)), name == "cmyk.jpg" ? 1 : 0) << name;
    to_grey(image);
    EXPECT_LE(largest_difference(image, golden().at(name + ".grey")), name == "cmyk.jpg" ? 1 : 0) << name;
  }
}

TEST(Images, AreResizedAsPillowResizesThem) {
  Resizer resizer;
  Image resized;
  for (const std::string& name : small_images()) {
    if (name == "cmyk.jpg") continue;
    const Image image = decoded(name);
    for (const ImageSize size : {ImageSize{16, 16}, {7, 29}, {90, 60}, {45, 37}}) {
      resizer.resize(image, size, resized);
      const std::string key = name + "." + std::to_string(size.width) + "x" + std::to_string(size.height);
      EXPECT_EQ(largest_difference(resized, golden().at(key)), 0) << key;
    }
  }
}

TEST(Images, OfLargeJpegsAreDecodedSmallerWithoutAVisibleDifference) {
  const Image image = decoded("large.jpg", {24, 24});
  EXPECT_EQ(image.size, (ImageSize{320, 240})) << "eight times 24 and more";
  Image resized;
  Resizer().resize(image, {24, 24}, resized);
  EXPECT_LE(largest_difference(resized, golden().at("large.jpg.24x24")), 2);
}

TEST(Images, AnUntouchedBoxIsAPartOfTheImage) {
  const Image image = decoded("plain.png");
  Image part;
  Resizer().resize(image, {10, 5, 20, 8}, {10, 3}, part);
  for (std::size_t y = 0; y < 3; ++y) {
    for (std::size_t x = 0; x < 30; ++x)
      ASSERT_EQ(part.bytes[y * 30 + x], image.bytes[(y + 5) * 45 * 3 + 30 + x]) << y << ", " << x;
  }
}

TEST(Images, ThatAreCutShortAreErrors) {
  for (const std::string& name : small_images()) {
    const std::string whole = content_of(name);
    EXPECT_NO_THROW(check_ends(bytes_of(whole))) << name;
    for (const std::size_t length :
         {std::size_t{0}, std::size_t{3}, std::size_t{20}, whole.size() / 2, whole.size() - 40}) {
      const std::string part = whole.substr(0, length);
      EXPECT_NE(problem_of(part), "none") << name << " of " << length << " bytes";
      EXPECT_THROW(check_ends(bytes_of(part)), DataError) << name << " of " << length << " bytes";
    }
  }
}

TEST(Images, WhatIsNoneIsToldByItsFirstBytes) {
  EXPECT_THAT(problem_of(""), HasSubstr("empty"));
  EXPECT_THAT(problem_of("GIF89a..."), HasSubstr("does not begin as a JPEG, PNG, WebP or BMP image"));
}

// A header that claims 60000 x 60000 pixels costs nothing.
TEST(Images, ThatWouldTakeTooMuchMemoryAreErrors) {
  std::string png = content_of("plain.png");
  png.replace(16, 8, std::string("\x00\x00\xEA\x60\x00\x00\xEA\x60", 8));
  EXPECT_THAT(problem_of(png), testing::AnyOf(HasSubstr("60000 x 60000"), HasSubstr("CRC")));
  std::string bmp = content_of("plain.bmp");
  bmp.replace(18, 8, std::string("\x60\xEA\x00\x00\x60\xEA\x00\x00", 8));
  EXPECT_THAT(problem_of(bmp), HasSubstr("60000 x 60000 pixels; an image has 1 to 67108864"));
  std::string jpeg = content_of("plain.jpg");
  const std::size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xEA\x60\xEA\x60");
  EXPECT_THAT(problem_of(jpeg), HasSubstr("60000 x 60000"));
}

}  // namespace
}  // namespace rookery
