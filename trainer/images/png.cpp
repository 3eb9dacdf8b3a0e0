// PNG, by libpng.
#include <png.h>

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/images/codecs.hpp"

namespace rookery {
namespace {

// libpng's reader of a file in memory.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> file) {
    image_.version = PNG_IMAGE_VERSION;
    png_image_begin_read_from_memory(&image_, file.data(), file.size());
    check();
  }
  ~Reader() { png_image_free(&image_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  ImageSize size() const { return {image_.width, image_.height}; }

  // Four bytes a pixel.
  void read(std::uint8_t* into) {
    image_.format = PNG_FORMAT_RGBA;
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    png_image_finish_read(&image_, nullptr, into, 0, nullptr);
    check();
  }

 private:
  void check() const {
    if (PNG_IMAGE_FAILED(image_)) throw DataError(fmt::format("PNG: {}", image_.message));
  }

  png_image image_{};
};

void decode_png(std::span<const std::byte> file, ImageSize /*wanted*/, Image& image) {
  constexpr std::size_t kWithAlpha = 4;
  Reader reader(file);
  const auto pixels = static_cast<std::size_t>(image.size.pixels());
  image.bytes.resize(pixels * kWithAlpha);
  reader.read(image.bytes.data());
  for (std::size_t i = 0; i < pixels; ++i)
    std::copy_n(image.bytes.data() + kWithAlpha * i, 3, image.bytes.data() + 3 * i);
  set_size(image, image.size);
}

bool png_ends(std::span<const std::byte> file) {
  constexpr std::string_view kLast("\0\0\0\0IEND", 8);
  constexpr std::size_t kChecksum = 4;
  return file.size() >= kLast.size() + kChecksum &&
         begins_with(file, kLast, file.size() - kLast.size() - kChecksum);
}

}  // namespace

ImageCodec png_codec() {
  return {.name = "PNG",
          .matches = [](std::span<const std::byte> file) { return begins_with(file, "\x89PNG\r\n\x1A\n"); },
          .size = [](std::span<const std::byte> file) { return Reader(file).size(); },
          .decode = decode_png,
          .ends = png_ends};
}

}  // namespace rookery
