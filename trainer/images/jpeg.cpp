// JPEG, by libjpeg-turbo.
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/images/codecs.hpp"

namespace rookery {
namespace {

struct Destroy {
  void operator()(void* handle) const { tjDestroy(handle); }
};

using Handle = std::unique_ptr<void, Destroy>;

// libjpeg-turbo's decompressor, one for each thread: making one takes as long as a small image.
Handle& own_handle() {
  thread_local Handle handle;
  return handle;
}

tjhandle decompressor() {
  Handle& handle = own_handle();
  if (handle == nullptr) handle.reset(tjInitDecompress());
  if (handle == nullptr) throw DataError(fmt::format("JPEG: {}", tjGetErrorStr2(nullptr)));
  return handle.get();
}

// After an error a decompressor would go on in the middle of that image.
[[noreturn]] void fail_jpeg() {
  const std::string problem = tjGetErrorStr2(decompressor());
  own_handle().reset();
  throw DataError(fmt::format("JPEG: {}", problem));
}

const unsigned char* jpeg_bytes(std::span<const std::byte> file) {
  return reinterpret_cast<const unsigned char*>(file.data());
}

struct Header {
  ImageSize size;
  int colorspace = 0;
};

Header read_header(std::span<const std::byte> file) {
  int width = 0;
  int height = 0;
  int subsampling = 0;
  Header header;
  if (tjDecompressHeader3(decompressor(), jpeg_bytes(file), file.size(), &width, &height, &subsampling,
                          &header.colorspace) != 0 &&
      tjGetErrorCode(decompressor()) == TJERR_FATAL)
    fail_jpeg();
  header.size = {width, height};
  return header;
}

// The smallest scale that keeps so many times what is wanted that a resize makes of it what it would make of
// the whole, to 2 of 255, but for patterns as fine as a pixel.
ImageSize scaled_size(ImageSize size, ImageSize wanted) {
  constexpr std::int64_t kGap = 8;
  for (const int denominator : {8, 4, 2}) {
    const tjscalingfactor scale{1, denominator};
    const ImageSize scaled{TJSCALED(size.width, scale), TJSCALED(size.height, scale)};
    if (scaled.width >= kGap * wanted.width && scaled.height >= kGap * wanted.height) return scaled;
  }
  return size;
}

// Warnings are of what does no harm to the picture, but for these.
bool is_damage(std::string_view warning) {
  const auto has = [&](std::string_view text) { return warning.find(text) != std::string_view::npos; };
  return has("remature end") || (has("Corrupt JPEG data") && !has("extraneous bytes"));
}

// Cyan, magenta, yellow and black as Adobe's programs store them, from the other end.
void from_cmyk(const std::vector<std::uint8_t>& cmyk, std::vector<std::uint8_t>& rgb) {
  for (std::size_t i = 0; i < rgb.size() / 3; ++i) {
    const std::uint32_t black = cmyk[4 * i + 3];
    for (std::size_t channel = 0; channel < 3; ++channel)
      rgb[3 * i + channel] = static_cast<std::uint8_t>((cmyk[4 * i + channel] * black + 127) / 255);
  }
}

// Behind the end of an image there may be a few bytes that belong to nothing.
bool jpeg_ends(std::span<const std::byte> file) {
  constexpr std::size_t kTail = 4096;
  constexpr std::array kEnd{std::byte{0xFF}, std::byte{0xD9}};
  const auto tail = file.last(std::min(kTail, file.size()));
  return std::search(tail.begin(), tail.end(), kEnd.begin(), kEnd.end()) != tail.end();
}

void decode_into(std::span<const std::byte> file, ImageSize size, int format, std::uint8_t* into) {
  constexpr int kFlags = TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS;
  if (tjDecompress2(decompressor(), jpeg_bytes(file), file.size(), into, static_cast<int>(size.width), 0,
                    static_cast<int>(size.height), format, kFlags) == 0)
    return;
  // The last warning is told alone: of an image that is cut short it need not be the one of that.
  const bool is_fatal = tjGetErrorCode(decompressor()) == TJERR_FATAL;
  if (is_fatal || is_damage(tjGetErrorStr2(decompressor())) || !jpeg_ends(file)) fail_jpeg();
}

void decode_jpeg(std::span<const std::byte> file, ImageSize wanted, Image& image) {
  const Header header = read_header(file);
  set_size(image, scaled_size(header.size, wanted));
  if (header.colorspace != TJCS_CMYK && header.colorspace != TJCS_YCCK) {
    decode_into(file, image.size, TJPF_RGB, image.bytes.data());
    return;
  }
  std::vector<std::uint8_t> cmyk(image.size.pixels() * 4);
  decode_into(file, image.size, TJPF_CMYK, cmyk.data());
  from_cmyk(cmyk, image.bytes);
}

}  // namespace

ImageCodec jpeg_codec() {
  return {.name = "JPEG",
          .matches = [](std::span<const std::byte> file) { return begins_with(file, "\xFF\xD8\xFF"); },
          .size = [](std::span<const std::byte> file) { return read_header(file).size; },
          .decode = decode_jpeg,
          .ends = jpeg_ends};
}

}  // namespace rookery
