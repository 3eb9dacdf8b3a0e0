#include "trainer/feed/sample_places.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "trainer/feed/epoch_order.hpp"
#include "trainer/settings/batch_sizes.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kSamples = 23;

TrainingSettings settings_of_places() {
  TrainingSettings settings;
  settings.batch_size = 8;
  settings.micro_batches = 3;
  return settings;
}

std::vector<std::int64_t> places_of_step(SamplePlaces& places, std::int64_t step, int micro_batches) {
  std::vector<std::int64_t> all;
  for (int i = 0; i < micro_batches; ++i) std::ranges::copy(places.of(step, i), std::back_inserter(all));
  return all;
}

// What BatchFeed hands in on the Root, but for the ids.
TEST(SamplePlaces, AreThoseOfTheEpochsOrder) {
  SamplePlaces places(settings_of_places(), kSamples, one_cluster(8));
  for (const std::int64_t epoch : {0, 1, 2}) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < 3; ++i)
      std::ranges::copy(places_of_step(places, 3 * epoch + i, 3), std::back_inserter(all));
    EXPECT_EQ(all, epoch_places(kSamples, settings_of_places().seed, epoch));
  }
  EXPECT_EQ(places.of(0, 0).size(), 3U);
  EXPECT_EQ(places.of(0, 2).size(), 2U);
  EXPECT_EQ(places.of(2, 2).size(), 1U) << "of 7";
}

TEST(SamplePlaces, OfSeveralClustersAreAllOfThemTogether) {
  std::vector<SamplePlaces> clusters;
  for (const int cluster : {0, 1}) {
    clusters.emplace_back(settings_of_places(), kSamples,
                          ClusterShares{.cluster = cluster, .samples = {8, 3}});
  }
  for (const std::int64_t epoch : {0, 1}) {
    std::vector<std::int64_t> all;
    for (std::int64_t step = 3 * epoch; step < 3 * epoch + 2; ++step) {
      for (SamplePlaces& own : clusters)
        std::ranges::copy(places_of_step(own, step, 3), std::back_inserter(all));
    }
    std::ranges::copy(clusters[0].of(3 * epoch + 2, 0), std::back_inserter(all));
    EXPECT_EQ(all, epoch_places(kSamples, settings_of_places().seed, epoch));
  }
}

// Of a run whose batches were smaller before.
TEST(SamplePlaces, GoByTheStepsThatBatchesOfThisSizeWouldHaveMade) {
  SamplePlaces from_the_beginning(settings_of_places(), kSamples, one_cluster(8));
  SamplePlaces later(settings_of_places(), kSamples, one_cluster(8));
  later.begin(5);
  EXPECT_THAT(later.of(5 + 4, 1), testing::ElementsAreArray(from_the_beginning.of(4, 1)));
}

}  // namespace
}  // namespace rookery
