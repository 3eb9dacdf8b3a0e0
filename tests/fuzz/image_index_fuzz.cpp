// The index of a folder of images, as it is kept there. Its digest is made right, so that what stands before
// it is read.

#include "models/base/libraries/format.hpp"
#include "trainer/data/content_digest.hpp"
#include "trainer/data/images/image_index.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rookery;
  const std::string lines(reinterpret_cast<const char*>(data), size);
  image_index_from(lines);
  image_index_from(lines + fmt::format("digest {:016x}\n", content_digest(lines)));
  return 0;
}
