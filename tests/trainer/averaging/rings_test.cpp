#include "trainer/averaging/ring/rings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "trainer/memory_link.hpp"

namespace rookery {
namespace {

using Numbers = std::vector<float>;

// Two clusters of one node each, with two rings of two tensors.
class RingsTest : public testing::Test {
 protected:
  static constexpr std::size_t kRings = 2;

  struct Cluster {
    std::unique_ptr<Rings> rings;
    std::vector<Numbers> numbers = std::vector<Numbers>(4, Numbers(1000, 1));

    void begin(std::int64_t round, bool is_ready = true) {
      rings->begin(round, [&](const RingMember& ring) {
        std::vector<RingTensor> tensors;
        for (std::size_t i = 0; i < 2; ++i) {
          tensors.push_back({.numbers = numbers[2 * static_cast<std::size_t>(ring.id) + i],
                             .factor = 0.5F,
                             .is_ready = is_ready});
        }
        return tensors;
      });
    }
  };

  RingsTest() {
    for (std::size_t ring = 0; ring < kRings; ++ring)
      links_.push_back(make_memory_links(2, std::chrono::seconds(60)));
    for (int cluster = 0; cluster < 2; ++cluster) {
      std::vector<RingMember> members;
      for (std::size_t ring = 0; ring < kRings; ++ring)
        members.push_back({static_cast<int>(ring), {"a", "b"}, links_[ring][cluster].get()});
      clusters_[cluster].rings = std::make_unique<Rings>(std::move(members), cluster, 2);
    }
  }

  std::vector<std::vector<std::unique_ptr<Link>>> links_;
  Cluster clusters_[2];
};

TEST_F(RingsTest, MakeOneRoundAfterTheOther) {
  for (std::int64_t round = 0; round < 3; ++round) {
    for (Cluster& cluster : clusters_) cluster.begin(round);
    for (Cluster& cluster : clusters_) cluster.rings->finish();
  }
  for (const Cluster& cluster : clusters_) {
    for (const Numbers& numbers : cluster.numbers) EXPECT_EQ(numbers, Numbers(1000, 1));
    EXPECT_EQ(cluster.rings->rounds(), 3);
    EXPECT_GE(cluster.rings->seconds(), 0);
  }
}

TEST_F(RingsTest, TakeTensorsWhenTheyAreThere) {
  for (Cluster& cluster : clusters_) cluster.begin(0, false);
  for (const std::size_t ring : {1U, 0U}) {
    for (const std::size_t tensor : {1U, 0U}) {
      for (Cluster& cluster : clusters_) {
        std::ranges::fill(cluster.numbers[2 * ring + tensor], 6.0F);
        cluster.rings->announce(ring, tensor);
      }
    }
  }
  for (Cluster& cluster : clusters_) {
    cluster.rings->finish();
    for (const Numbers& numbers : cluster.numbers) EXPECT_EQ(numbers, Numbers(1000, 6));
  }
}

TEST_F(RingsTest, GiveUpATensorThatNeverComes) {
  for (Cluster& cluster : clusters_) cluster.begin(0, false);
  for (Cluster& cluster : clusters_) cluster.rings->announce(0, 1);
  for (Cluster& cluster : clusters_) {
    cluster.rings->abandon();
    try {
      cluster.rings->finish();
      ADD_FAILURE() << "finished";
    } catch (const TransportError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("round 0: the step was not finished"));
    }
  }
}

}  // namespace
}  // namespace rookery
