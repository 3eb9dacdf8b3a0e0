// Buckets: what AWS S3 and servers that are like it (Ceph, MinIO, Swift) keep.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/storage/random_file.hpp"
#include "trainer/storage/remote/s3_access.hpp"
#include "trainer/storage/remote/s3_listing.hpp"

namespace rookery {

struct HttpRequest;

// "s3://BUCKET/KEY", where the key may be empty, or begin those of several objects.
struct S3Address {
  std::string bucket, key;
  static S3Address of(const std::string& address);  // ConfigError for what is none
  // Its key ends in one '/', unless it is all of the bucket.
  static S3Address of_folder(const std::string& address);
  std::string text() const { return "s3://" + bucket + (key.empty() ? "" : "/" + key); }
};

// That one request may put into a bucket.
constexpr std::uint64_t kMostUpload = 5ULL << 30;

// Any number of threads at once. DataError naming the address for what the server refuses.
class S3 {
 public:
  explicit S3(S3Access access) : access_(std::move(access)) {}

  // All objects whose keys begin so, in the order of their keys.
  std::vector<S3Object> list(const S3Address& prefix) const;
  // Asks the server for its size.
  SharedFile open(const S3Address& address) const;
  // An object of a list.
  SharedFile open(const std::string& bucket, const S3Object& object) const;
  // Puts the file there, of kMostUpload bytes at most, and reads it back to compare.
  void upload(const RandomFile& file, const S3Address& address) const;
  // Removes the object, if there is one.
  void remove(const S3Address& address) const;

 private:
  HttpRequest request(const S3Address& address, const std::string& query = "") const;

  S3Access access_;
};

}  // namespace rookery
