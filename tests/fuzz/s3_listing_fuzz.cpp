// What a server of S3 answers.
#include "models/base/error.hpp"
#include "trainer/storage/remote/s3_listing.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rookery;
  const std::string text(reinterpret_cast<const char*>(data), size);
  s3_problem_from(text);
  try {
    s3_listing_from(text);
  } catch (const DataError&) {
  }
  return 0;
}
