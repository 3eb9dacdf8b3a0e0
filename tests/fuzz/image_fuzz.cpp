// Images of all formats. What an image takes grows with the pixels that its header claims, which plans count:
// here they are few.
#include "models/base/error.hpp"
#include "trainer/images/image.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rookery;
  const auto file = std::as_bytes(std::span(data, size));
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  try {
    check_ends(file);
  } catch (const DataError&) {
  }
  try {
    if (image_size(file).pixels() > kMost) return 0;
    Image image;
    decode_image(file, {8, 8}, image);
    to_grey(image);
  } catch (const DataError&) {
  }
  return 0;
}
