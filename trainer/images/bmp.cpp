// BMP (https://learn.microsoft.com/windows/win32/gdi/bitmap-storage): 24 or 32 bits a pixel, or 1, 4 or 8
// with a palette, not compressed.

#include <cstdlib>
#include <optional>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/images/codecs.hpp"

namespace rookery {
namespace {

constexpr std::size_t kFileHeader = 14;
constexpr std::size_t kInfoHeader = 40;  // the smallest that is read; later versions add to it

struct Layout {
  ImageSize size;
  bool is_bottom_up = true;
  std::size_t bits = 24;  // a pixel
  std::size_t pixels_at = 0;
  std::size_t palette_at = 0;
  std::size_t colors = 0;  // of the palette

  std::size_t row_bytes() const { return (static_cast<std::size_t>(size.width) * bits + 31) / 32 * 4; }
};

[[noreturn]] void fail_bmp(const std::string& what) {
  throw DataError("BMP: " + what);
}

// Red, green and blue in the order that other programs read without being told: that of 24 bits.
void check_masks(std::span<const std::byte> file) {
  constexpr std::size_t kMasks = kFileHeader + kInfoHeader;
  if (file.size() < kMasks + 12) fail_bmp("is cut short within its header");
  if (number_at(file, kMasks, 4) != 0xFF0000 || number_at(file, kMasks + 4, 4) != 0xFF00 ||
      number_at(file, kMasks + 8, 4) != 0xFF)
    fail_bmp("has its colours in an order that is not read");
}

Layout read_layout(std::span<const std::byte> file) {
  if (file.size() < kFileHeader + kInfoHeader) fail_bmp("is cut short within its header");
  const std::size_t header = number_at(file, kFileHeader, 4);
  if (header < kInfoHeader || header > file.size() - kFileHeader)
    fail_bmp(fmt::format("has a header of {} bytes, which is not read", header));
  const auto signed_at = [&](std::size_t at) { return static_cast<std::int32_t>(number_at(file, at, 4)); };
  Layout layout;
  const std::int64_t height = signed_at(22);
  layout.size = {signed_at(18), std::abs(height)};
  layout.is_bottom_up = height > 0;
  layout.bits = number_at(file, 28, 2);
  layout.pixels_at = number_at(file, 10, 4);
  layout.palette_at = kFileHeader + header;
  const std::uint32_t compression = number_at(file, 30, 4);
  constexpr std::uint32_t kBitFields = 3;
  if (compression == kBitFields && layout.bits == 32) {
    check_masks(file);
  } else if (compression != 0) {
    fail_bmp(fmt::format("is compressed ({}), which is not read", compression));
  }
  if (layout.bits == 1 || layout.bits == 4 || layout.bits == 8) {
    const std::size_t most = std::size_t{1} << layout.bits;
    const std::size_t given = number_at(file, 46, 4);
    layout.colors = given == 0 ? most : std::min(given, most);
    if (layout.colors * 4 > file.size() - layout.palette_at) fail_bmp("is cut short within its palette");
  } else if (layout.bits != 24 && layout.bits != 32) {
    fail_bmp(fmt::format("has {} bits a pixel, which are not read", layout.bits));
  }
  return layout;
}

bool has_all_rows(std::span<const std::byte> file, const Layout& layout) {
  const std::size_t wanted = layout.row_bytes() * static_cast<std::size_t>(layout.size.height);
  return layout.pixels_at <= file.size() && wanted <= file.size() - layout.pixels_at;
}

// Where the blue, green and red of pixel x of a row stand.
const std::byte* color_of(std::span<const std::byte> file, const Layout& layout, std::size_t row,
                          std::size_t x) {
  const std::size_t bit = x * layout.bits;
  if (layout.bits >= 24) return file.data() + row + bit / 8;
  const auto byte = std::to_integer<std::size_t>(file[row + bit / 8]);
  const std::size_t color = byte >> (8 - layout.bits - bit % 8) & ((std::size_t{1} << layout.bits) - 1);
  if (color >= layout.colors) fail_bmp("has a pixel of a colour that its palette lacks");
  return file.data() + layout.palette_at + 4 * color;
}

void decode_bmp(std::span<const std::byte> file, ImageSize /*wanted*/, Image& image) {
  const Layout layout = read_layout(file);
  if (!has_all_rows(file, layout)) fail_bmp("is cut short");
  set_size(image, layout.size);
  const auto width = static_cast<std::size_t>(layout.size.width);
  const auto height = static_cast<std::size_t>(layout.size.height);
  std::uint8_t* to = image.bytes.data();
  for (std::size_t y = 0; y < height; ++y) {
    const std::size_t row =
        layout.pixels_at + (layout.is_bottom_up ? height - 1 - y : y) * layout.row_bytes();
    for (std::size_t x = 0; x < width; ++x, to += 3) {
      const std::byte* color = color_of(file, layout, row, x);
      for (std::size_t channel = 0; channel < 3; ++channel)
        to[channel] = std::to_integer<std::uint8_t>(color[2 - channel]);
    }
  }
}

}  // namespace

ImageCodec bmp_codec() {
  return {.name = "BMP",
          .matches = [](std::span<const std::byte> file) { return begins_with(file, "BM"); },
          .size = [](std::span<const std::byte> file) { return read_layout(file).size; },
          .decode = decode_bmp,
          .ends = [](std::span<const std::byte> file) { return has_all_rows(file, read_layout(file)); }};
}

}  // namespace rookery
