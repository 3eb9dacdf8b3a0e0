// The groups of a process that are one run's: several clusters in one process, each with its pipeline, joined
// by rings and by the Roots' group.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "node/transport/endpoint.hpp"
#include "tests/node/transport/endpoints.hpp"
#include "tests/support/captured_log.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;
using testing::ContainsRegex;
using testing::StartsWith;

struct Plan {
  std::string name;
  std::vector<std::vector<int>> pipelines;
  std::vector<std::vector<int>> rings;  // nodes by cluster; the last: the Roots
};
void PrintTo(const Plan& what, std::ostream* out) {
  *out << what.name;
}

// Cut alike: two clusters of three.
const Plan kAlike{
    .name = "CutAlike", .pipelines = {{0, 1, 2}, {3, 4, 5}}, .rings = {{0, 3}, {1, 4}, {2, 5}, {0, 3}}};
// Cut otherwise: clusters of three, two and one.
const Plan kOtherwise{.name = "CutOtherwise",
                      .pipelines = {{0, 1, 2}, {3, 4}, {5}},
                      .rings = {{0, 3, 5}, {1, 3, 5}, {1, 4, 5}, {2, 4, 5}, {0, 3, 5}}};

class OneRun : public testing::TestWithParam<std::tuple<Plan, int>> {
 protected:
  OneRun() : links_(6) {
    for (const std::vector<int>& pipeline : plan().pipelines) {
      if (pipeline.size() > 1) open(kPipeline, pipeline, Topology::kMesh, "");
    }
    GroupId number = kPipeline;
    for (const std::vector<int>& ring : plan().rings) {
      ++number;
      open(number, ring, Topology::kRing, fmt::format("ring {}", number - 1));
    }
    for (auto& links : links_) {
      for (auto& [group, link] : links) link->join();
    }
  }

  static const Plan& plan() { return std::get<0>(GetParam()); }
  static int culprit() { return std::get<1>(GetParam()); }

  void open(GroupId number, const std::vector<int>& nodes, Topology topology, const std::string& name) {
    auto links = nodes_.open(number, nodes, [&](GroupOptions& options) {
      options.topology = topology;
      options.name = name;
      options.deadline = std::chrono::seconds(60);
    });
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      const std::size_t node = static_cast<std::size_t>(nodes[rank]);
      others_[{nodes[rank], number}] = static_cast<int>((rank + 1) % nodes.size());
      links_[node][number] = std::move(links[rank]);
    }
  }

  // What each link of a node says of the end; all must say the same.
  std::string end_of(int node) {
    std::string all;
    for (const auto& entry : links_[node]) {
      const GroupId number = entry.first;
      const std::string message = error_of([&] {
        receive_number(*entry.second, others_.at({node, number}), key(9));
      });
      const std::string end = message.substr(0, message.find(" (here: "));
      if (all.empty()) all = end;
      EXPECT_EQ(end, all) << "group " << number << " of node_" << node;
    }
    return all;
  }

  static std::size_t count(const std::string& text, const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  }

  const CapturedLog log_;
  Endpoints nodes_{6, [](EndpointOptions& options) {
                     options.reconnect_grace = milliseconds(300);
                     options.groups_end_together = true;
                   }};
  std::vector<std::map<GroupId, std::unique_ptr<ZmqLink>>> links_;  // by node
  std::map<std::pair<int, GroupId>, int> others_;                   // a rank to wait for
};

INSTANTIATE_TEST_SUITE_P(Clusters, OneRun,
                         testing::Combine(testing::Values(kAlike, kOtherwise), testing::Range(0, 6)),
                         [](const auto& instance) {
                           return fmt::format("{}Node{}", std::get<0>(instance.param).name,
                                              std::get<1>(instance.param));
                         });

TEST_P(OneRun, WhoIsKilledIsNamedByAllNodesOfAllClusters) {
  nodes_[culprit()].reset();
  for (int node = 0; node < 6; ++node) {
    if (node == culprit()) continue;
    const std::string end = end_of(node);
    EXPECT_EQ(count(end, nodes_.name(culprit()) + " is lost"), 1U) << end;
    EXPECT_EQ(count(end, " is lost"), 1U) << end;
    EXPECT_THAT(end,
                ContainsRegex(" is lost in (its pipeline, beside )?ring [0-9], before its first round: "));
    EXPECT_LE(count(end, " ended the run: "), 1U) << end;
    EXPECT_LE(count(end, " (127.0.0.1:"), 2U) << end << ": who is lost, and who has found out";
  }
}

TEST_P(OneRun, WhoFailsIsNamedByAllNodesOfAllClusters) {
  auto& links = links_[culprit()];
  std::prev(links.end())->second->stop("failed: no space left");
  for (int node = 0; node < 6; ++node) {
    EXPECT_EQ(end_of(node),
              (node == culprit() ? loopback_name(node) : nodes_.name(culprit())) + " failed: no space left");
  }
}

TEST_P(OneRun, AllLeaveEachGroupInTheSameOrder) {
  std::vector<std::jthread> threads;
  for (auto& links : links_) {
    threads.emplace_back([&links] {
      for (auto link = links.rbegin(); link != links.rend(); ++link) EXPECT_NO_THROW(link->second->leave());
    });
  }
}

// Also what is opened when all is over, and what is still awaited.
TEST(OneRunOfTwo, GroupsThatHaveNotBegunEndWithTheOthers) {
  Endpoints nodes(2, [](EndpointOptions& options) { options.groups_end_together = true; });
  auto pipeline = nodes.gather(kPipeline, {0, 1});
  GroupOptions ring{.group = 1, .members = {"node_0", "node_1"}};
  const auto awaited = nodes[0]->open(ring);
  pipeline[1]->stop("failed: no space left");
  const std::string end = nodes.name(1) + " failed: no space left";
  EXPECT_EQ(error_of([&] { awaited->join(); }), end);
  ring.group = 2;
  const auto late = nodes[0]->open(ring);
  EXPECT_EQ(error_of([&] { late->join(); }), end);
}

// Those whose groups have ended in good order are not disturbed.
TEST(OneRunOfTwo, AGroupThatWasLeftStaysSo) {
  Endpoints nodes(3, [](EndpointOptions& options) { options.groups_end_together = true; });
  auto pipeline = nodes.gather(kPipeline, {0, 1});
  auto ring = nodes.gather(1, {1, 2});
  leave_all(pipeline);
  ring[0]->stop("failed: no space left");
  EXPECT_THAT(error_of([&] { receive_number(*ring[1], 0, key(0)); }), StartsWith(nodes.name(1) + " failed"));
  EXPECT_NO_THROW(pipeline[0]->flush());
}

}  // namespace
}  // namespace rookery
