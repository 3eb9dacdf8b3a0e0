// The formats of images, a file each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/images/image.hpp"

namespace rookery {

// Every function is told only files that it matches, and throws a DataError for what is wrong with them.
struct ImageCodec {
  const char* name;
  bool (*matches)(std::span<const std::byte> file);
  ImageSize (*size)(std::span<const std::byte> file);
  // Into image.bytes, which has room for image.size; JPEG may make that smaller (decode_image()).
  void (*decode)(std::span<const std::byte> file, ImageSize wanted, Image& image);
  // Is the end of the file the end of an image?
  bool (*ends)(std::span<const std::byte> file);
};

ImageCodec jpeg_codec();
ImageCodec png_codec();
ImageCodec webp_codec();
ImageCodec bmp_codec();

// Gives an image its size and room for it.
void set_size(Image& image, ImageSize size);
bool begins_with(std::span<const std::byte> file, std::string_view magic, std::size_t at = 0);
// Little-endian.
std::uint32_t number_at(std::span<const std::byte> file, std::size_t at, std::size_t bytes);

}  // namespace rookery
