// Pictures in memory, read from files of the formats that people have: JPEG, PNG, WebP and BMP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rookery {

struct ImageSize {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t pixels() const { return width * height; }
  bool operator==(const ImageSize&) const = default;
};

// Row after row from the top, red, green and blue of each pixel; or one byte, where it is grey.
struct Image {
  ImageSize size;
  int channels = 3;
  std::vector<std::uint8_t> bytes;  // keeps its room when it is used again
};

// What an image may have at most, so that a small file that claims to be a large picture costs nothing.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;
// Memory that decode_image() takes, of the image itself and within the libraries, for each pixel of the file.
constexpr std::int64_t kDecodingBytesPerPixel = 9;

// The size that the file's header says. DataError for what is no image of these formats, or too large a one.
ImageSize image_size(std::span<const std::byte> file);

// The image in colour; what is transparent shows its own colour. A JPEG much larger than `wanted` comes out
// at a half, a quarter or an eighth of its size, at least eight times `wanted` in both directions. The same
// bits everywhere that have the same versions of the libraries. DataError for what is no such image, is cut
// short or damaged, is too large, or has several frames.
void decode_image(std::span<const std::byte> file, ImageSize wanted, Image& image);

// Does it end as the files of its format do? Found without decoding; what is damaged in its middle is not
// found. DataError as above.
void check_ends(std::span<const std::byte> file);

// Of three channels, in place: luma of ITU-R 601-2, rounded as Pillow does.
void to_grey(Image& image);

}  // namespace rookery
