#include "models/base/fnv.hpp"

#include <gtest/gtest.h>

namespace rookery {
namespace {

std::uint64_t hash_of(std::string_view text) {
  Fnv1a digest;
  digest.add(text);
  return digest.value();
}

// Of the authors' test suite.
TEST(Fnv1a, KnownAnswers) {
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(hash_of("foobar"), 0x85944171f73967e8ULL);
}

TEST(Fnv1a, PartsAreTheWhole) {
  Fnv1a digest;
  digest.add("foo");
  for (const char letter : {'b', 'a', 'r'}) digest.add_unit(static_cast<std::uint64_t>(letter));
  EXPECT_EQ(digest.value(), hash_of("foobar"));
}

}  // namespace
}  // namespace rookery
