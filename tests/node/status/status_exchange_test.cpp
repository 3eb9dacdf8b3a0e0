#include "node/status/status_exchange.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace rookery {
namespace {

// Of a cluster of one: there is nobody to tell.
TEST(StatusExchange, KeepsLossAndAccuracyBetweenWhatBringsThem) {
  std::vector<Progress> told;
  StatusExchange leaf(nullptr, true, [&](const Progress& progress) { told.push_back(progress); });
  leaf.after_update({.step = 1, .loss = 0.5}, {});
  leaf.after_validation({.step = 1, .accuracy = 90}, {});
  leaf.after_update({.step = 2, .loss = 0.25}, {});
  leaf.tell_end();
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[0].accuracy, std::nullopt);
  EXPECT_EQ(told[1].loss, 0.5);
  EXPECT_EQ(told[2].loss, 0.25);
  EXPECT_EQ(told[2].accuracy, 90);
}

TEST(StatusExchange, OthersThanTheLeafTellTheirLastStepAgainAtTheEnd) {
  std::vector<std::int64_t> steps;
  StatusExchange stem(nullptr, false, [&](const Progress& progress) { steps.push_back(progress.step); });
  stem.tell_end();
  EXPECT_TRUE(steps.empty());
  stem.after_update({.step = 7}, {});
  stem.tell_end();
  EXPECT_EQ(steps, (std::vector<std::int64_t>{7, 7}));
}

}  // namespace
}  // namespace rookery
