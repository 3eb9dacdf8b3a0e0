#include "fusion/upload.hpp"

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/storage/random_file.hpp"
#include "trainer/storage/remote/s3.hpp"

namespace rookery {

void check_upload(const std::string& address) {
  if (!address.starts_with("s3://"))
    throw UsageError(fmt::format("--upload {}: it is an address like s3://bucket/models/digits", address));
}

std::vector<std::string> upload(const FusedFiles& files, const std::string& address) {
  const S3 s3(s3_access());
  const S3Address folder = S3Address::of_folder(address);
  std::vector<std::string> places;
  for (const std::filesystem::path& file : {files.safetensors, files.pytorch, files.onnx}) {
    const S3Address place{folder.bucket, folder.key + file.filename().string()};
    s3.upload(*open_local_file(file), place);
    places.push_back(place.text());
  }
  return places;
}

}  // namespace rookery
