#include "trainer/agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/on_all_nodes.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;

TEST(Agreement, AllHearWhatTheFirstRootSays) {
  const auto told = on_all<std::int64_t>({2, 3, 1}, [](Agreement& agreement, int cluster) {
    return agreement.told_by_root(7, "what", 10 * cluster + agreement.stage());
  });
  EXPECT_THAT(told, ElementsAre(ElementsAre(0, 0), ElementsAre(0, 0, 0), ElementsAre(0)));
}

TEST(Agreement, AllFindTheLeast) {
  const auto least = on_all<std::int64_t>({2, 3, 1}, [](Agreement& agreement, int cluster) {
    return agreement.least_of_all(7, "what", cluster == 1 ? 5 - agreement.stage() : 8);
  });
  EXPECT_THAT(least, ElementsAre(ElementsAre(3, 3), ElementsAre(3, 3, 3), ElementsAre(3)));
}

TEST(Agreement, LeavesAddUpWhatTheyHave) {
  const auto sums = on_all<std::vector<double>>({2, 3, 1, 1}, [](Agreement& agreement, int cluster) {
    const bool is_leaf = agreement.stage() + 1 == agreement.stages();
    return agreement.sum_of_leaves(7, "what", {is_leaf ? 1.0 + cluster : 100, is_leaf ? 0.5 : 100});
  });
  for (const auto& cluster : sums) EXPECT_THAT(cluster.back(), ElementsAre(10, 2));
}

TEST(ClusterRoots, GatherWhatEachHas) {
  for (int clusters = 1; clusters <= 6; ++clusters) {
    const auto all = on_all<std::vector<std::vector<double>>>(
        std::vector<int>(static_cast<std::size_t>(clusters), 1), [](Agreement& agreement, int cluster) {
          if (agreement.roots() == nullptr) return std::vector<std::vector<double>>{{0, 1}};
          return agreement.roots()->all_gather(3, "what", {1.0 * cluster, cluster + 1.0});
        });
    for (const auto& cluster : all) {
      ASSERT_EQ(cluster[0].size(), static_cast<std::size_t>(clusters));
      for (int of = 0; of < clusters; ++of) EXPECT_THAT(cluster[0][of], ElementsAre(of, of + 1));
    }
  }
}

}  // namespace
}  // namespace rookery
