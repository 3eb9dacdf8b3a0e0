#include "trainer/settings/batch_sizes.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "models/base/check.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {
namespace {

TEST(BatchSizes, TheLastPieceIsSmaller) {
  TrainingSettings settings;
  settings.micro_batches = 3;
  EXPECT_EQ(micro_batch_sizes(settings, 64), (std::vector<std::int64_t>{22, 22, 20}));
  EXPECT_EQ(micro_batch_sizes(settings, 54), (std::vector<std::int64_t>{22, 22, 10}));
  EXPECT_EQ(micro_batch_sizes(settings, 22), (std::vector<std::int64_t>{22}));
  EXPECT_EQ(micro_batch_sizes(settings, 0), (std::vector<std::int64_t>{}));
  EXPECT_THROW(micro_batch_sizes(settings, 65), BugError);
}

TEST(BatchSizes, OfTheDigitsRun) {
  const TrainingSettings settings;
  const DataSizes data{.train_samples = 1078, .validation_samples = 719};
  EXPECT_EQ(training_sizes(settings, data, one_cluster(64)), (std::vector<std::int64_t>{64, 54}));
  EXPECT_EQ(validation_sizes(settings, data, one_cluster(64)), (std::vector<std::int64_t>{64, 15}));
  EXPECT_EQ(batches_per_epoch(64, 1078), 17);
  TrainingSettings silent = settings;
  silent.validate_every = 0;
  EXPECT_TRUE(validation_sizes(silent, data, one_cluster(64)).empty());
}

RC_GTEST_PROP(BatchSizesProperty, EverySampleIsInOneMicroBatchOfAKnownSize, ()) {
  TrainingSettings settings;
  settings.batch_size = *rc::gen::inRange<std::int64_t>(1, 200);
  settings.micro_batches = *rc::gen::inRange(1, static_cast<int>(settings.batch_size) + 1);
  const std::int64_t samples = *rc::gen::inRange<std::int64_t>(1, 1000);
  const auto known = training_sizes(settings, {.train_samples = samples}, one_cluster(settings.batch_size));
  std::int64_t left = samples;
  for (std::int64_t batch = 0; batch < batches_per_epoch(settings.batch_size, samples); ++batch) {
    const auto sizes = micro_batch_sizes(settings, std::min(left, settings.batch_size));
    RC_ASSERT(sizes.size() <= static_cast<std::size_t>(*settings.micro_batches));
    for (const std::int64_t size : sizes) RC_ASSERT(std::ranges::count(known, size) == 1);
    left -= std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  }
  RC_ASSERT(left == 0);
}

}  // namespace
}  // namespace rookery
