// Pictures as PNG files, for those who do not draw SVG, such as TensorBoard.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rookery {

struct PngCopy {
  std::string svg;             // an SVG file's text
  std::filesystem::path path;  // of its PNG file
};

// Draws them by rsvg-convert of librsvg (Debian's librsvg2-bin), all at once. Where that program is not, or
// cannot draw one, there is no such PNG file afterwards: an older one is removed. DataError where its folder
// cannot be written to.
void write_png_copies(const std::vector<PngCopy>& copies);

}  // namespace rookery
