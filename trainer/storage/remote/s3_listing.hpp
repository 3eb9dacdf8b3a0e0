// The answer of ListObjectsV2, and of what went wrong: XML of S3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rookery {

struct S3Object {
  std::string key;
  std::uint64_t bytes = 0;
  std::string etag;
  std::string modified;  // "2026-01-31T12:00:00.000Z", so that later ones are greater; empty: not known
  bool operator==(const S3Object&) const = default;
};

struct S3Listing {
  std::vector<S3Object> objects;
  std::string continuation;  // what is asked next; empty: nothing
};

// Of a listing that was asked for with encoding-type=url. DataError for what is none.
S3Listing s3_listing_from(std::string_view xml);

// "NoSuchKey: The specified key does not exist."; empty for what is no such answer.
struct S3Problem {
  std::string code, message;
};
S3Problem s3_problem_from(std::string_view xml);

// "a%20b" is "a b". DataError for a '%' that no two hexadecimal digits follow.
std::string percent_decoded(std::string_view text);
// All but letters, digits, "-_.~" and those of `safe`.
std::string percent_encoded(std::string_view text, std::string_view safe = "");

}  // namespace rookery
