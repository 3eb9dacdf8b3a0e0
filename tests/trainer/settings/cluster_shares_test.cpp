#include "trainer/settings/cluster_shares.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

namespace rookery {
namespace {

TEST(ClusterShares, DivideAStepInProportion) {
  const ClusterShares shares{.cluster = 1, .samples = {64, 21, 43}};
  EXPECT_EQ(shares.joint(), 128);
  EXPECT_EQ(shares.part_of(128), (SampleRange{64, 21}));
  EXPECT_EQ(shares.parts_of(64), (std::vector<SampleRange>{{0, 32}, {32, 11}, {43, 21}}));  // 32, 10.5, 21.5
  EXPECT_EQ(shares.parts_of(1), (std::vector<SampleRange>{{0, 1}, {1, 0}, {1, 0}}));
  EXPECT_EQ(shares.parts_of(0), (std::vector<SampleRange>{{0, 0}, {0, 0}, {0, 0}}));
}

TEST(ClusterShares, OfOneClusterAreTheBatch) {
  const ClusterShares shares = one_cluster(64);
  EXPECT_EQ(shares.joint(), 64);
  EXPECT_EQ(shares.part_of(17), (SampleRange{0, 17}));
  EXPECT_EQ(shares.trained_of(0, 1000), 1000);
}

TEST(ClusterShares, OfAStepMayBeNoSamples) {
  const ClusterShares shares{.cluster = 0, .samples = {6, 2}};
  EXPECT_TRUE(shares.all_train_in(0, 17));
  EXPECT_TRUE(shares.all_train_in(1, 17));
  EXPECT_FALSE(shares.all_train_in(2, 17));  // one is left, for the first
  EXPECT_TRUE(shares.all_train_in(2, 19));
}

RC_GTEST_PROP(ClusterSharesProperty, EverySampleIsInOnePart, ()) {
  ClusterShares shares;
  const int clusters = *rc::gen::inRange(1, 65);
  for (int i = 0; i < clusters; ++i) shares.samples.push_back(*rc::gen::inRange<std::int64_t>(1, 1000));
  const std::int64_t count = *rc::gen::inRange<std::int64_t>(0, shares.joint() + 1);
  std::int64_t next = 0;
  for (int i = 0; i < clusters; ++i) {
    shares.cluster = i;
    const SampleRange part = shares.part_of(count);
    RC_ASSERT(part.first == next);
    next += part.count;
    RC_ASSERT(part.count <= shares.own());
    const std::int64_t whole = shares.joint();
    RC_ASSERT(part.count * whole > count * shares.own() - whole);
    RC_ASSERT(part.count * whole < count * shares.own() + whole);
    RC_ASSERT(shares.trained_of(i, 3 * whole + count) == 3 * shares.own() + part.count);
  }
  RC_ASSERT(next == count);
}

}  // namespace
}  // namespace rookery
