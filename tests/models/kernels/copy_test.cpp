// Copies of whole arrays, at places and of lengths that no vector fits.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "models/kernels/arithmetic.hpp"

namespace rookery::kernel_tests {
namespace {

TEST(CopyPastCaches, WritesTheseElementsAndNoOthers) {
  constexpr std::size_t kRoom = 64;
  std::vector<float> source(kRoom);
  std::iota(source.begin(), source.end(), 1.F);
  for (std::size_t at = 0; at < 8; ++at) {
    for (std::size_t count = 0; count < 40; ++count) {
      std::vector<float> copied(kRoom), expected(kRoom);
      std::copy_n(source.begin() + 3, count, expected.begin() + static_cast<std::ptrdiff_t>(at));
      copy_past_caches(copied.data() + at, source.data() + 3, count);
      ASSERT_EQ(copied, expected) << count << " elements at " << at;
    }
  }
}

}  // namespace
}  // namespace rookery::kernel_tests
