#include "node/membership/root_cause.hpp"

#include <gtest/gtest.h>

namespace rookery {
namespace {

const std::string kNode0 = "node_0 (0.0.0.0:8080)";
const std::string kNode1 = "node_1 (0.0.0.0:8081)";
const std::string kNode2 = "node_2 (0.0.0.0:8082)";

Blame blame(const std::string& of_0, const std::string& of_1, const std::string& of_2, std::size_t first) {
  return root_cause({{kNode0, of_0}, {kNode1, of_1}, {kNode2, of_2}}, first);
}

TEST(RootCause, WhoFailedByItselfIsTheCauseThoughItEndsLast) {
  const Blame found =
      blame(kNode2 + " failed: losses.txt: No space left on device (here: waiting for gradient of x)",
            kNode2 + " failed: losses.txt: No space left on device",
            "stage 2: step 9: losses.txt: No space left on device", 0);
  EXPECT_EQ(found.cause, 2U);
  EXPECT_EQ(found.witness, 0U);
}

TEST(RootCause, WhoBlamesNobodyIsTheCause) {
  const Blame found = blame("cannot listen at 0.0.0.0:8080", "", kNode0 + " failed: cannot listen", 0);
  EXPECT_EQ(found.cause, 0U);
  EXPECT_FALSE(found.witness);
}

TEST(RootCause, WhoPassesBlameOnIsNotTheCause) {
  const Blame found = blame(kNode2 + " ended the run: " + kNode1 + " is lost: silent for 10.0 s", "",
                            kNode1 + " is lost: silent for 10.0 s", 0);
  EXPECT_EQ(found.cause, 1U);
  EXPECT_EQ(found.witness, 0U);
}

// The neighbour in a ring who has found out belongs to another cluster.
TEST(RootCause, WhoIsLostInARingIsTheCause) {
  const std::string lost = kNode1 + " is lost in ring 2, round 17: nothing heard for 10.0 s";
  const Blame found = blame(kNode2 + " ended the run: " + lost, "", lost + " (here: waiting)", 0);
  EXPECT_EQ(found.cause, 1U);
}

TEST(RootCause, WhomANodeWaitsForIsNotBlamed) {
  const Blame found =
      blame(kNode1 + " failed: waiting for x: " + kNode2 + " has not sent it for 9 s",
            "waiting for x: " + kNode2 + " has not sent it for 9 s (it waits for " + kNode0 + " itself)",
            kNode1 + " failed: waiting for x", 2);
  EXPECT_EQ(found.cause, 1U);
}

TEST(RootCause, TwoThatBlameEachOtherEndTheSearch) {
  const Blame found =
      blame(kNode1 + " is lost: silent for 10.0 s", kNode0 + " is lost: silent for 10.0 s", "", 1);
  EXPECT_EQ(found.cause, 0U);
  EXPECT_EQ(found.witness, 1U);
}

TEST(RootCause, OthersTellOfWhoSaysNothing) {
  const Blame found = blame("lost: " + kNode1 + " is lost: silent for 10.0 s", "", "", 1);
  EXPECT_EQ(found.cause, 1U);
  EXPECT_EQ(found.witness, 0U);
}

TEST(RootCause, NamesThatBeginAlikeAreTwo) {
  EXPECT_EQ(root_cause({{"node_1 (a:1)", "node_11 (a:1) failed: x"}, {"node_11 (a:1)", "x"}}, 0).cause, 1U);
}

}  // namespace
}  // namespace rookery
