// Groups whose members talk with their neighbours alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "node/transport/endpoint.hpp"
#include "tests/node/transport/endpoints.hpp"
#include "tests/support/captured_log.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

const auto kAsRing = [](GroupOptions& options) {
  options.topology = Topology::kRing;
  options.name = "ring 6";
};

// Members of one ring, none of which knows any but its neighbours.
class RingGroup : public testing::TestWithParam<int> {
 protected:
  RingGroup() {
    std::iota(nodes_.begin(), nodes_.end(), 0);
    links_ = endpoints_.gather(kRing, nodes_, kAsRing);
  }

  int members() const { return GetParam(); }
  int after(int rank) const { return (rank + 1) % members(); }
  int before(int rank) const { return (rank + members() - 1) % members(); }
  bool are_neighbours(int a, int b) const { return b == after(a) || b == before(a); }

  // A number from each to the next, all taken.
  void pass_on(std::int64_t round) {
    for (const int rank : nodes_) send_number(*links_[rank], after(rank), key(round), rank);
    for (const int rank : nodes_)
      ASSERT_EQ(receive_number(*links_[rank], before(rank), key(round)), before(rank));
  }
  // How a member ends that waits for the one before it.
  std::string end_of(int rank, std::int64_t round) {
    return error_of([&] { receive_number(*links_[rank], before(rank), key(round)); });
  }

  const CapturedLog log_;
  std::vector<int> nodes_ = std::vector<int>(static_cast<std::size_t>(GetParam()));
  Endpoints endpoints_{GetParam(),
                       [](EndpointOptions& options) { options.reconnect_grace = milliseconds(300); },
                       [this](int node, int peer) { return are_neighbours(node, peer); }};
  std::vector<std::unique_ptr<ZmqLink>> links_;
};

INSTANTIATE_TEST_SUITE_P(Members, RingGroup, testing::Values(2, 3, 5, 8));

TEST_P(RingGroup, TensorsGoRoundAndAllLeave) {
  constexpr std::int64_t kElements = 200'000;  // several chunks
  std::vector<std::jthread> threads;
  for (const int rank : nodes_) {
    threads.emplace_back([&, rank] {
      Tensor tensor(DType::kI64, {kElements});
      std::ranges::fill(tensor.as<std::int64_t>(), rank);
      for (std::int64_t round = 0; round < 3L * members(); ++round) {
        Tensor into(DType::kI64, {kElements});
        const auto begun = links_[rank]->begin_receive(before(rank), key(round), into.view());
        links_[rank]->send(after(rank), key(round), tensor.view());
        begun->wait();
        tensor = std::move(into);
      }
      EXPECT_EQ(tensor.as<std::int64_t>().front(), rank);  // it has come round three times
      EXPECT_EQ(tensor.as<std::int64_t>().back(), rank);
      links_[rank]->leave();
    });
  }
}

TEST_P(RingGroup, ALostMemberIsNamedByAllOthers) {
  pass_on(4);
  const int lost = members() / 2;
  endpoints_[lost].reset();
  const std::string named = endpoints_.name(lost) + " is lost in ring 6, round 4: ";
  for (const int rank : nodes_) {
    if (rank == lost) continue;
    const std::string message = end_of(rank, 5);
    EXPECT_THAT(message,
                AllOf(HasSubstr(named),
                      HasSubstr("(here: waiting for activation x of step 5, micro-batch 0 in ring 6)")));
    EXPECT_EQ(message.find("ended the run"), message.rfind("ended the run")) << message << ": a chain";
    EXPECT_EQ(message.find("is lost"), message.rfind("is lost")) << message;
  }
}

TEST_P(RingGroup, AStopGoesRoundAndNamesItsOrigin) {
  links_[0]->stop("failed: no space left");
  for (const int rank : nodes_) {
    EXPECT_THAT(end_of(rank, 0), testing::StartsWith((rank == 0 ? loopback_name(0) : endpoints_.name(0)) +
                                                     " failed: no space left (here: "));
  }
}

TEST_P(RingGroup, NobodyTalksPastItsNeighbours) {
  if (members() < 4) return;
  EXPECT_THROW(send_number(*links_[0], 2, key(0), 1), BugError);
  EXPECT_THROW(receive_number(*links_[0], 2, key(0)), BugError);
  send_number(*links_[0], before(0), key(0), 3);  // backwards they may
  EXPECT_EQ(receive_number(*links_[before(0)], 0, key(0)), 3);
}

// Whoever has left is not disturbed by those who still do.
TEST_P(RingGroup, MembersLeaveOneAfterTheOther) {
  std::vector<std::jthread> threads;
  for (const int rank : nodes_) {
    threads.emplace_back([&, rank] {
      if (rank > 0) receive_number(*links_[rank], rank - 1, key(0));
      if (rank + 1 < members()) send_number(*links_[rank], rank + 1, key(0), 1);
      links_[rank]->leave();
    });
  }
}

// Two of four open all their connections themselves, and stand between the others.
TEST(Ring, MembersThatNobodyReachesStandBetweenOthers) {
  const CapturedLog log;
  Endpoints endpoints(
      4,
      [](EndpointOptions& options) {
        options.reachable = options.node == "node_0" || options.node == "node_2";
        options.reconnect_grace = milliseconds(300);
        options.heartbeat = milliseconds(100);
      },
      [](int node, int peer) { return (node + peer) % 2 == 1; });
  auto links = endpoints.gather(kRing, {0, 1, 2, 3}, kAsRing);
  for (int rank = 0; rank < 4; ++rank) send_number(*links[rank], (rank + 1) % 4, key(0), rank);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(receive_number(*links[(rank + 1) % 4], rank, key(0)), rank);
  endpoints[1].reset();
  for (const int rank : {0, 2, 3}) {
    EXPECT_THAT(error_of([&] { receive_number(*links[rank], (rank + 1) % 4, key(1)); }),
                HasSubstr(endpoints.name(1) + " is lost in ring 6, round 0: "));
  }
}

// A neighbour says for whom it waits, though that one is no neighbour of whoever is told.
TEST(Ring, WhoIsAwaitedFurtherRoundIsNamed) {
  Endpoints endpoints(5, [](EndpointOptions& options) { options.heartbeat = milliseconds(20); });
  GroupOptions options{.group = kRing, .members = {"node_0", "node_1", "node_2", "node_3", "node_4"}};
  kAsRing(options);
  std::vector<std::unique_ptr<ZmqLink>> links;
  for (int node = 0; node < 5; ++node) {
    options.deadline = node == 1 ? std::chrono::seconds(1) : std::chrono::seconds(600);
    links.push_back(endpoints[node]->open(options));
  }
  for (const auto& link : links) link->join();
  std::jthread waiting([&] { error_of([&] { receive_number(*links[2], 3, key(0)); }); });
  EXPECT_THAT(error_of([&] { receive_number(*links[1], 2, key(0)); }),
              HasSubstr("(it waits for node_3 itself)"));
  endpoints[2].reset();
}

}  // namespace
}  // namespace rookery
