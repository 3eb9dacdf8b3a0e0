#include "clusterize/report/pictures/png_copy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "clusterize/report/pictures/svg.hpp"
#include "models/base/files/files.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/images/image.hpp"

namespace rookery {
namespace {

std::string picture() {
  Svg svg;
  svg.rectangle(0, 0, 20, 10, {.fill = "#ff0000"});
  return svg.document(20, 10, "red");
}

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(PngCopy, IsThePictureWhereRsvgConvertIs) {
  if (std::system("rsvg-convert --version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "there is no rsvg-convert: install librsvg2-bin";
  const ScratchFolder folder;
  write_png_copies({{picture(), folder.path() / "a.png"}, {"no SVG", folder.path() / "b.png"}});
  const std::string png = read_file(folder.path() / "a.png", 1U << 20);
  Image image;
  decode_image(std::as_bytes(std::span(png)), {20, 10}, image);
  ASSERT_EQ(image.size, (ImageSize{20, 10}));
  const auto middle = image.bytes.begin() + 3 * (5 * 20 + 10);
  EXPECT_EQ(std::vector<std::uint8_t>(middle, middle + 3), (std::vector<std::uint8_t>{255, 0, 0}));
  EXPECT_EQ(files_in(folder.path()), 1U) << "nothing of what cannot be drawn";
}

// An older picture would be of another plan.
TEST(PngCopy, IsNoneWhereRsvgConvertIsNot) {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "a.png") << "older";
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder.path().c_str(), 1);
  write_png_copies({{picture(), folder.path() / "a.png"}});
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(files_in(folder.path()), 0U);
}

}  // namespace
}  // namespace rookery
