#include "models/base/text.hpp"

#include <gtest/gtest.h>

namespace rookery {
namespace {

TEST(DurationText, HasTheUnitThatSuits) {
  EXPECT_EQ(duration_text(0.0123), "12.3 ms");
  EXPECT_EQ(duration_text(7.321), "7.32 s");
  EXPECT_EQ(duration_text(245), "4 min 5 s");
  EXPECT_EQ(duration_text(12'000), "3 h 20 min");
  EXPECT_EQ(duration_text(93'600), "1 d 2 h");
}

TEST(RateText, HasThreeDigitsOrAWholeNumber) {
  EXPECT_EQ(rate_text(0), "0");
  EXPECT_EQ(rate_text(0.012345), "0.0123");
  EXPECT_EQ(rate_text(7.251), "7.25");
  EXPECT_EQ(rate_text(99.94), "99.9");
  EXPECT_EQ(rate_text(99.96), "100");
  EXPECT_EQ(rate_text(90'847.3), "90847");
}

TEST(PercentText, IsOfAShare) {
  EXPECT_EQ(percent_text(0.125), "12.5%");
  EXPECT_EQ(percent_text(1), "100%");
  EXPECT_EQ(percent_text(23), "2300%");
}

}  // namespace
}  // namespace rookery
