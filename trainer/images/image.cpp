#include "trainer/images/image.hpp"

#include <algorithm>
#include <array>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/images/codecs.hpp"

namespace rookery {
namespace {

const ImageCodec& codec_of(std::span<const std::byte> file) {
  static const std::array codecs{jpeg_codec(), png_codec(), webp_codec(), bmp_codec()};
  const auto codec = std::ranges::find_if(codecs, [&](const ImageCodec& each) { return each.matches(file); });
  if (codec == codecs.end()) {
    throw DataError(file.empty() ? "is empty" : "does not begin as a JPEG, PNG, WebP or BMP image does");
  }
  return *codec;
}

ImageSize checked_size(const ImageCodec& codec, std::span<const std::byte> file) {
  const ImageSize size = codec.size(file);
  if (size.width < 1 || size.height < 1 || size.width > kMostPixels / size.height) {
    throw DataError(fmt::format("{}: {} x {} pixels; an image has 1 to {}", codec.name, size.width,
                                size.height, kMostPixels));
  }
  return size;
}

}  // namespace

ImageSize image_size(std::span<const std::byte> file) {
  return checked_size(codec_of(file), file);
}

void decode_image(std::span<const std::byte> file, ImageSize wanted, Image& image) {
  const ImageCodec& codec = codec_of(file);
  const ImageSize size = checked_size(codec, file);
  image.channels = 3;
  image.size = size;
  codec.decode(file, wanted, image);
}

void check_ends(std::span<const std::byte> file) {
  const ImageCodec& codec = codec_of(file);
  checked_size(codec, file);
  if (!codec.ends(file)) throw DataError(fmt::format("{}: is cut short", codec.name));
}

void to_grey(Image& image) {
  ROOKERY_CHECK(image.channels == 3, "{} channels", image.channels);
  // 0.299, 0.587 and 0.114 of 2^16.
  constexpr std::uint32_t kRed = 19595;
  constexpr std::uint32_t kGreen = 38470;
  constexpr std::uint32_t kBlue = 7471;
  constexpr std::uint32_t kHalf = 0x8000;
  const auto pixels = static_cast<std::size_t>(image.size.pixels());
  for (std::size_t i = 0; i < pixels; ++i) {
    const std::uint8_t* pixel = image.bytes.data() + 3 * i;
    image.bytes[i] =
        static_cast<std::uint8_t>((kRed * pixel[0] + kGreen * pixel[1] + kBlue * pixel[2] + kHalf) >> 16);
  }
  image.channels = 1;
  image.bytes.resize(pixels);
}

void set_size(Image& image, ImageSize size) {
  image.size = size;
  image.bytes.resize(size.pixels() * image.channels);
}

bool begins_with(std::span<const std::byte> file, std::string_view magic, std::size_t at) {
  return file.size() >= at + magic.size() &&
         std::ranges::equal(std::as_bytes(std::span(magic)), file.subspan(at, magic.size()));
}

std::uint32_t number_at(std::span<const std::byte> file, std::size_t at, std::size_t bytes) {
  ROOKERY_CHECK(at + bytes <= file.size(), "{} bytes at {} of {}", bytes, at, file.size());
  std::uint32_t number = 0;
  for (std::size_t i = bytes; i-- > 0;) number = number << 8 | std::to_integer<std::uint32_t>(file[at + i]);
  return number;
}

}  // namespace rookery
