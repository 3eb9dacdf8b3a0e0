#include "node/sparkline.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace rookery {
namespace {

TEST(Sparkline, OfNothingIsEmpty) {
  Sparkline line;
  line.add(std::numeric_limits<double>::infinity());
  line.add(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(line.empty());
  EXPECT_EQ(line.text(8), "");
}

TEST(Sparkline, ReachesFromTheLowestToTheHighest) {
  Sparkline line;
  for (const double value : {7.0, 3.0, 0.0, 1.0}) line.add(value);
  EXPECT_EQ(line.text(8), "█▄▁▂");
  EXPECT_EQ(line.text(2), "█▁") << "means of two";
  EXPECT_EQ(line.text(0), "");
  EXPECT_EQ(line.first(), 7);
  EXPECT_EQ(line.last(), 1);
}

TEST(Sparkline, OfOneValueIsLow) {
  Sparkline line;
  for (int i = 0; i < 3; ++i) line.add(5);
  EXPECT_EQ(line.text(8), "▁▁▁");
}

TEST(Sparkline, OfManyValuesKeepsItsForm) {
  for (const int count : {100, 1000, 12'345, 1'000'000}) {
    Sparkline line;
    for (int i = 0; i < count; ++i) line.add(i);
    EXPECT_EQ(line.text(8), "▁▂▃▄▅▆▇█") << count;
    EXPECT_EQ(line.last(), count - 1);
  }
}

}  // namespace
}  // namespace rookery
