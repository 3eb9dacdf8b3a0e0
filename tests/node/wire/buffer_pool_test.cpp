#include "node/wire/buffer_pool.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <thread>

namespace rookery {
namespace {

constexpr std::uint64_t kSmall = 10'000, kLarge = 1'000'000;

TEST(BufferPool, GivesTheSmallestThatHoldsAMessageAndTakesItBack) {
  BufferPool pool({kSmall, kLarge});
  const std::byte* small = nullptr;
  {
    const SharedBytes first = pool.take(kSmall - 1);
    const SharedBytes second = pool.take(kSmall - 1);
    small = first.get();
    EXPECT_NE(second.get(), small);
    const std::vector<SharedBytes> copies{first, first};
  }
  EXPECT_EQ(pool.take(kSmall).get(), small);
}

TEST(BufferPool, TakesFreshMemoryWhenNoneIsFree) {
  BufferPool pool({kLarge});
  std::set<const std::byte*> places;
  std::vector<SharedBytes> taken;
  for (int i = 0; i < 3; ++i) {
    taken.push_back(pool.take(kLarge));
    taken.back()[kLarge - 1] = std::byte{1};
    places.insert(taken.back().get());
  }
  EXPECT_EQ(places.size(), 3U);
  EXPECT_EQ(pool.bytes(), kLarge);
}

TEST(BufferPool, SmallMessagesLeaveTheBuffersToLargeOnes) {
  BufferPool pool({kLarge});
  const std::byte* large = pool.take(kLarge).get();
  const SharedBytes number = pool.take(8), nothing = pool.take(0);
  EXPECT_EQ(pool.take(kLarge).get(), large);
}

TEST(BufferPool, BytesOutliveThePool) {
  std::optional<BufferPool> pool(std::in_place, std::vector{kLarge});
  const SharedBytes bytes = pool->take(kLarge);
  pool.reset();
  bytes[kLarge - 1] = std::byte{7};
  EXPECT_EQ(bytes[kLarge - 1], std::byte{7});
}

TEST(BufferPool, ServesSeveralThreads) {
  BufferPool pool(std::vector<std::uint64_t>(4, kSmall));
  const auto use = [pool]() mutable {
    for (int i = 0; i < 1000; ++i) {
      const SharedBytes bytes = pool.take(kSmall);
      bytes[0] = std::byte{1};
    }
  };
  { const std::jthread one(use), two(use); }
  std::set<const std::byte*> places;
  std::vector<SharedBytes> taken;
  for (int i = 0; i < 4; ++i) places.insert(taken.emplace_back(pool.take(kSmall)).get());
  EXPECT_EQ(places.size(), 4U);
}

}  // namespace
}  // namespace rookery
