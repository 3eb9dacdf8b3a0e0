// WebP, by libwebp.
#include <webp/decode.h>

#include "models/base/error.hpp"
#include "trainer/images/codecs.hpp"

namespace rookery {
namespace {

// "RIFF", the number of bytes behind it, "WEBP".
constexpr std::size_t kRiffHeader = 8;

const std::uint8_t* webp_bytes(std::span<const std::byte> file) {
  return reinterpret_cast<const std::uint8_t*>(file.data());
}

ImageSize webp_size(std::span<const std::byte> file) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(webp_bytes(file), file.size(), &features) != VP8_STATUS_OK)
    throw DataError("WebP: its header is damaged");
  if (features.has_animation != 0) throw DataError("WebP: is an animation of several frames");
  return {features.width, features.height};
}

void decode_webp(std::span<const std::byte> file, ImageSize /*wanted*/, Image& image) {
  set_size(image, image.size);
  const auto stride = static_cast<int>(image.size.width * image.channels);
  if (WebPDecodeRGBInto(webp_bytes(file), file.size(), image.bytes.data(), image.bytes.size(), stride) ==
      nullptr)
    throw DataError("WebP: is cut short or damaged");
}

bool webp_ends(std::span<const std::byte> file) {
  return file.size() >= kRiffHeader + number_at(file, 4, 4);
}

}  // namespace

ImageCodec webp_codec() {
  return {.name = "WebP",
          .matches =
              [](std::span<const std::byte> file) {
                return begins_with(file, "RIFF") && begins_with(file, "WEBP", kRiffHeader);
              },
          .size = webp_size,
          .decode = decode_webp,
          .ends = webp_ends};
}

}  // namespace rookery
