#include "trainer/feed/split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "models/base/error.hpp"
#include "trainer/feed/epoch_order.hpp"

namespace rookery {
namespace {

TEST(Split, FractionsAreRoundedDown) {
  TrainingSettings settings;
  EXPECT_EQ(split_dataset(1797, settings).train.size(), 1078U);
  EXPECT_EQ(split_dataset(1797, settings).validation.size(), 719U);
  settings.train_fraction = 0.29;
  EXPECT_EQ(split_dataset(100, settings).train.size(), 29U);
  settings.train_fraction = 1;
  EXPECT_EQ(split_dataset(10, settings).train.size(), 10U);
  settings.train_fraction = 0.01;
  EXPECT_THROW(split_dataset(10, settings), ConfigError);
}

TEST(Split, InOrderTakesTheFirst) {
  TrainingSettings settings;
  settings.train_fraction = 0.8;
  settings.split = "in_order";
  const Split split = split_dataset(10000, settings);
  EXPECT_EQ(split.train.size(), 8000U);
  EXPECT_TRUE(std::ranges::is_sorted(split.train));
  EXPECT_EQ(split.validation.front(), 8000);
  EXPECT_EQ(split.validation.back(), 9999);
}

TEST(Split, ShuffledIsAPartitionThatTheSeedDecides) {
  TrainingSettings settings;
  settings.seed = 1;
  const Split one = split_dataset(100, settings);
  std::vector<std::int64_t> all = one.train;
  all.insert(all.end(), one.validation.begin(), one.validation.end());
  std::ranges::sort(all);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<std::int64_t>(i));
  EXPECT_EQ(one.train, split_dataset(100, settings).train);
  settings.seed = 2;
  EXPECT_NE(one.train, split_dataset(100, settings).train);
}

TEST(EpochOrder, IsAPermutationOfTheEpoch) {
  const std::vector<std::int64_t> ids{5, 9, 11, 40, 41, 70, 71, 72};
  const auto first = epoch_order(ids, 42, 0);
  EXPECT_NE(first, epoch_order(ids, 42, 1));
  EXPECT_NE(first, epoch_order(ids, 43, 0));
  EXPECT_EQ(first, epoch_order(ids, 42, 0));
  EXPECT_THAT(first, testing::UnorderedElementsAreArray(ids));
}

}  // namespace
}  // namespace rookery
