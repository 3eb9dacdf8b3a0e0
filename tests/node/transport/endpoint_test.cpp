// One endpoint per process and several groups on it.
#include "node/transport/endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <numeric>
#include <thread>

#include "models/base/error.hpp"
#include "node/wire/stream.hpp"
#include "tests/node/transport/endpoints.hpp"
#include "tests/node/transport/loopback.hpp"
#include "tests/node/transport/no_free_descriptors.hpp"
#include "tests/node/transport/tcp_proxy.hpp"
#include "tests/support/captured_log.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

// A number from each to each.
void expect_to_work(const std::vector<std::unique_ptr<ZmqLink>>& links, std::int64_t step) {
  const int ranks = static_cast<int>(links.size());
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from != to) send_number(*links[from], to, key(step), 100 * from + to);
    }
  }
  for (int to = 0; to < ranks; ++to) {
    for (int from = 0; from < ranks; ++from) {
      if (from == to) continue;
      EXPECT_EQ(receive_number(*links[to], from, key(step)), 100 * from + to);
    }
  }
}

int open_sockets() {
  const auto entries = std::filesystem::directory_iterator("/proc/self/fd");
  int sockets = 0;
  for (const auto& entry : entries) {
    std::error_code error;
    sockets += std::filesystem::read_symlink(entry.path(), error).string().starts_with("socket:") ? 1 : 0;
  }
  return sockets;
}

// Connections that were tried before the other side listened take a moment to go.
bool comes_to_open_sockets(int count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (open_sockets() != count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  return open_sockets() == count;
}

TEST(Endpoint, GroupsWithTheSamePeerShareItsConnections) {
  // It listens, ZeroMQ too; it has opened two connections, the peer two, and a local channel each.
  constexpr int kSocketsOfANode = 2 + 2 + 2 + 2;
  const int expected = open_sockets() + 2 * kSocketsOfANode;
  Endpoints nodes(2);
  auto pipeline = nodes.gather(kPipeline, {0, 1});
  expect_to_work(pipeline, 0);
  EXPECT_TRUE(comes_to_open_sockets(expected)) << open_sockets() << ", not " << expected;
  auto ring = nodes.gather(kRing, {1, 0});
  expect_to_work(ring, 0);
  expect_to_work(pipeline, 1);
  EXPECT_TRUE(comes_to_open_sockets(expected)) << open_sockets() << ", not " << expected;
  leave_all(ring);
  expect_to_work(pipeline, 2);
  leave_all(pipeline);
}

TEST(Endpoint, GroupsMayBeOpenedInAnyOrderOnDifferentNodes) {
  Endpoints nodes(2);
  GroupOptions first;
  first.members = {"node_0", "node_1"};
  GroupOptions second = first;
  second.group = kRing;
  std::vector<std::unique_ptr<ZmqLink>> a(2), b(2);
  a[0] = nodes[0]->open(first);
  b[1] = nodes[1]->open(second);
  b[0] = nodes[0]->open(second);
  a[1] = nodes[1]->open(first);
  for (auto* links : {&b, &a}) {
    for (const auto& link : *links) link->join();
    expect_to_work(*links, 0);
  }
  leave_all(a);
  leave_all(b);
}

TEST(Endpoint, TheSameKeyInTwoGroupsIsTwoMessages) {
  Endpoints nodes(2);
  auto pipeline = nodes.gather(kPipeline, {0, 1});
  auto ring = nodes.gather(kRing, {1, 0});  // by other ranks
  send_number(*ring[1], 0, key(5), 2);
  send_number(*pipeline[0], 1, key(5), 1);
  EXPECT_EQ(receive_number(*pipeline[1], 0, key(5)), 1);
  EXPECT_EQ(receive_number(*ring[0], 1, key(5)), 2);
}

TEST(Endpoint, AGroupMayFollowAnotherOne) {
  Endpoints nodes(3);
  for (GroupId number = 0; number < 10; ++number) {
    auto links = nodes.gather(number, number % 2 == 0 ? std::vector<int>{0, 1, 2} : std::vector<int>{2, 1});
    expect_to_work(links, 0);
    leave_all(links);
  }
}

TEST(Endpoint, AGroupThatEndsDisturbsNoOther) {
  Endpoints nodes(3);
  auto pipeline = nodes.gather(kPipeline, {0, 1});
  auto ring = nodes.gather(kRing, {0, 1, 2});
  double got = 0;
  const TensorView into{{DType::kF64, Shape{1}}, reinterpret_cast<std::byte*>(&got)};
  const auto pending = pipeline[1]->begin_receive(0, key(3), into);
  std::jthread waiting([&] {
    EXPECT_THAT(error_of([&] { receive_number(*ring[1], 2, key(4)); }),
                AllOf(HasSubstr("node_2 ("), HasSubstr("failed: no space left"), HasSubstr("step 4")));
  });
  ring[2]->stop("failed: no space left");
  waiting.join();
  EXPECT_FALSE(pending->test());
  send_number(*pipeline[0], 1, key(3), 42);
  pending->wait();
  EXPECT_EQ(got, 42);
  expect_to_work(pipeline, 10);
  leave_all(pipeline);
}

// It ends the groups that it is in; those of the others go on.
TEST(Endpoint, ALostPeerEndsItsGroups) {
  Endpoints nodes(3, [](EndpointOptions& options) { options.reconnect_grace = milliseconds(300); });
  auto pipeline = nodes.gather(kPipeline, {0, 1});
  auto ring = nodes.gather(kRing, {0, 1, 2});
  auto pair = nodes.gather(kRing + 1, {1, 2});
  nodes[2].reset();
  for (const int rank : {0, 1}) {
    EXPECT_THAT(error_of([&] { receive_number(*ring[rank], 2, key(4)); }),
                AllOf(HasSubstr("node_2 ("), HasSubstr("is lost")));
  }
  EXPECT_THAT(error_of([&] { receive_number(*pair[0], 1, key(4)); }), HasSubstr("node_2 ("));
  expect_to_work(pipeline, 0);
  leave_all(pipeline);
}

// Whoever opens a group that has ended elsewhere finds out, though the peer's process lives and has said so
// before.
TEST(Endpoint, AGroupThatHasEndedElsewhereFailsWhoeverOpensIt) {
  Endpoints nodes(2);
  auto pipeline = nodes.gather(kPipeline, {0, 1});
  const GroupOptions ring{.group = kRing, .members = {"node_0", "node_1"}};
  const auto early = nodes[0]->open(ring);
  early->stop("failed: no space left");
  EXPECT_THAT(error_of([&] { early->join(); }), HasSubstr("no space left"));
  const auto late = nodes[1]->open(ring);
  EXPECT_THAT(error_of([&] {
                late->join();  // what the other said while it lived may still come
                receive_number(*late, 0, key(0));
              }),
              AllOf(HasSubstr("node_0 ("), HasSubstr("no space left")));
  expect_to_work(pipeline, 0);
}

TEST(Endpoint, AGroupBeyondTheLimitFailsAlone) {
  Endpoints nodes(2);
  std::vector<std::vector<std::unique_ptr<ZmqLink>>> groups;
  for (GroupId number = 0; number < kMostGroups; ++number) groups.push_back(nodes.gather(number, {0, 1}));
  auto beyond = nodes.open(kMostGroups, {0, 1});
  EXPECT_THAT(error_of([&] { beyond[0]->join(); }), AllOf(HasSubstr("64 groups"), HasSubstr("node_1 (")));
  leave_all(groups.front());
  for (auto& links : groups) {
    if (links != groups.front()) expect_to_work(links, 0);
  }
}

TEST(Endpoint, ALinkThatIsDroppedFailsItsGroupOnly) {
  Endpoints nodes(2);
  auto pipeline = nodes.gather(kPipeline, {0, 1});
  auto ring = nodes.gather(kRing, {0, 1});
  ring[0].reset();
  EXPECT_THAT(error_of([&] { receive_number(*ring[1], 0, key(0)); }),
              AllOf(HasSubstr("node_0 ("), HasSubstr("failed: it ended without saying why")));
  expect_to_work(pipeline, 0);
}

TEST(Endpoint, WhoWaitsForAGroupIsToldWhenNobodyOpensIt) {
  Endpoints nodes(2);
  auto pipeline = nodes.gather(kPipeline, {0, 1});
  const auto alone =
      nodes[0]->open({.group = kRing, .members = {"node_0", "node_1"}, .wait_for_peers = milliseconds(300)});
  EXPECT_THAT(error_of([&] { alone->join(); }), HasSubstr("node_1 ("));
  EXPECT_THAT(error_of([&] { alone->join(); }), HasSubstr("its provider runs, but takes no part yet"));
  expect_to_work(pipeline, 0);
}

TEST(Endpoint, WhoHasNoDescriptorForAPeerIsToldSo) {
#ifdef ROOKERY_SANITIZED
  GTEST_SKIP() << "a sanitizer's checks take descriptors themselves";
#endif
  Endpoints nodes(2);
  const NoFreeDescriptors meanwhile;
  const auto links = nodes.open(kPipeline, {0, 1},
                                [](GroupOptions& options) { options.wait_for_peers = milliseconds(300); });
  EXPECT_THAT(error_of([&] { links[0]->join(); }),
              AllOf(HasSubstr("node_1 ("), HasSubstr("no descriptor for its connection")));
}

// What one group has under way to a peer that does not take it leaves another's room alone.
TEST(Endpoint, BudgetsAreTheGroupsOwn) {
  constexpr std::int64_t kElements = 1 << 18;
  Endpoints nodes(2);
  auto pipeline = nodes.gather(kPipeline, {0, 1});
  auto ring = nodes.gather(kRing, {0, 1}, [](GroupOptions& options) {
    options.max_message_bytes = kElements;
    options.send_budget = options.receive_budget = 4 * kElements;
  });
  const Tensor tensor(DType::kU8, {kElements});
  std::int64_t sent = 0;
  while (sent < 10 && ring[0]->begin_send(1, key(sent), tensor.view())->test()) ++sent;
  EXPECT_LT(sent, 10);
  Tensor into(DType::kU8, {kElements});
  for (std::int64_t step = 0; step < 200; ++step) {
    pipeline[0]->send(1, key(step), tensor.view());
    pipeline[1]->receive(0, key(step), into.view());
  }
  for (std::int64_t step = 0; step < sent; ++step) ring[1]->receive(0, key(step), into.view());
}

// Each group's calls on a thread of its own, all at once.
TEST(Endpoint, ManyGroupsAtOnceEachOnItsThread) {
  constexpr int kGroups = 6;
  constexpr std::int64_t kSteps = 300;
  Endpoints nodes(3);
  std::vector<std::vector<std::unique_ptr<ZmqLink>>> groups;
  for (int number = 0; number < kGroups; ++number)
    groups.push_back(nodes.open(static_cast<GroupId>(number), {0, 1, 2}));
  std::vector<std::jthread> threads;
  for (auto& links : groups) {
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&links, rank] {
        ZmqLink& link = *links[rank];
        link.join();
        const int next = (rank + 1) % 3;
        const int before = (rank + 2) % 3;
        for (std::int64_t step = 0; step < kSteps; ++step) {
          double got = -1;
          const auto begun = link.begin_receive(
              before, key(step), {{DType::kF64, Shape{1}}, reinterpret_cast<std::byte*>(&got)});
          send_number(link, next, key(step), static_cast<double>(step) + rank);
          begun->wait();
          ASSERT_EQ(got, static_cast<double>(step) + before);
        }
        link.leave();
      });
    }
  }
}

TEST(Endpoint, SeveralGroupsSurviveCuts) {
  constexpr std::int64_t kCount = 150;
  constexpr std::int64_t kElements = 80'000;
  const CapturedLog log;
  std::array<std::unique_ptr<Endpoint>, 2> nodes;
  std::array<std::unique_ptr<TcpProxy>, 2> proxies;  // in front of the node with the same index
  for (int i = 0; i < 2; ++i) {
    nodes[i] = std::make_unique<Endpoint>(loopback_options(i).endpoint());
    proxies[i] = std::make_unique<TcpProxy>(nodes[i]->address());
  }
  for (int i = 0; i < 2; ++i) nodes[i]->start({{loopback_name(1 - i), proxies[1 - i]->address()}});
  std::atomic<std::int64_t> arrived{0};
  std::vector<std::jthread> threads;
  for (const GroupId number : {kPipeline, kRing}) {
    GroupOptions options{
        .group = number, .members = {"node_0", "node_1"}, .priority = static_cast<int>(number)};
    threads.emplace_back([&nodes, options] {
      const auto link = nodes[0]->open(options);
      link->join();
      Tensor tensor(DType::kI64, {kElements});
      for (std::int64_t i = 0; i < kCount; ++i) {
        std::iota(tensor.as<std::int64_t>().begin(), tensor.as<std::int64_t>().end(), i);
        link->send(1, key(i), tensor.view());
      }
      link->leave();
    });
    threads.emplace_back([&nodes, &proxies, &arrived, options] {
      const auto link = nodes[1]->open(options);
      link->join();
      Tensor tensor(DType::kI64, {kElements});
      for (std::int64_t i = 0; i < kCount; ++i) {
        link->receive(0, key(i), tensor.view());
        ASSERT_EQ(tensor.as<std::int64_t>().front(), i);
        ASSERT_EQ(tensor.as<std::int64_t>().back(), i + kElements - 1);
        const std::int64_t all = ++arrived;
        if (all % 60 == 20) proxies[1]->cut();  // data
        if (all % 60 == 50) proxies[0]->cut();  // acknowledgements
      }
      link->leave();
    });
  }
}

const auto kSecondIsUnreachable = [](EndpointOptions& options) {
  options.reachable = options.node != "node_1";
};

TEST(UnreachableNode, OpensTheConnectionsOfBothDirections) {
  Endpoints nodes(3, kSecondIsUnreachable);
  EXPECT_EQ(nodes[1]->address(), "127.0.0.1:0");  // it does not listen
  auto links = nodes.gather(kPipeline, {0, 1, 2});
  auto ring = nodes.gather(kRing, {1, 2});
  expect_to_work(links, 0);
  expect_to_work(ring, 0);
  leave_all(ring);
  expect_to_work(links, 1);
  leave_all(links);
}

TEST(UnreachableNode, MovesLargeTensorsBothWays) {
  constexpr std::int64_t kElements = 1 << 20;
  Endpoints nodes(2, kSecondIsUnreachable);
  auto links = nodes.gather(kPipeline, {0, 1});
  std::vector<std::jthread> threads;
  for (const int rank : {0, 1}) {
    threads.emplace_back([&links, rank] {
      Tensor tensor(DType::kI64, {kElements});
      Tensor into(DType::kI64, {kElements});
      for (std::int64_t i = 0; i < 20; ++i) {
        std::iota(tensor.as<std::int64_t>().begin(), tensor.as<std::int64_t>().end(), i + rank);
        const auto begun = links[rank]->begin_receive(1 - rank, key(i), into.view());
        links[rank]->send(1 - rank, key(i), tensor.view());
        begun->wait();
        ASSERT_EQ(into.as<std::int64_t>().back(), i + 1 - rank + kElements - 1);
      }
      links[rank]->leave();
    });
  }
}

TEST(UnreachableNode, TwoOfThemAreToldThatTheyCannotMeet) {
  EXPECT_THAT(error_of([] { Endpoints(2, [](EndpointOptions& options) { options.reachable = false; }); }),
              AllOf(HasSubstr("neither node_0 nor node_1 can be reached"), HasSubstr("node_configs.json")));
}

// Each side closes its lines when its last group ends, while the other waits in the next one already.
TEST(UnreachableNode, MeetsAgainWhoeverOpensTheNextGroupFirst) {
  Endpoints nodes(2, kSecondIsUnreachable);
  GroupId number = kPipeline;
  auto links = nodes.gather(number, {0, 1});
  for (const int early : {0, 1, 0, 1}) {
    GroupOptions next{.group = ++number, .members = {"node_0", "node_1"}};
    next.wait_for_peers = std::chrono::seconds(60);
    std::vector<std::unique_ptr<ZmqLink>> following(2);
    following[early] = nodes[early]->open(next);
    leave_all(links);
    following[1 - early] = nodes[1 - early]->open(next);
    for (const auto& link : following) link->join();
    expect_to_work(following, 0);
    links = std::move(following);
  }
  leave_all(links);
}

// The others take the new process as soon as connections to the former one are found to be gone.
TEST(UnreachableNode, MayBeRestartedWhileOthersAreAwaited) {
  const CapturedLog log;
  Endpoints nodes(3, [](EndpointOptions& options) {
    kSecondIsUnreachable(options);
    options.peer_timeout = std::chrono::hours(1);
  });
  GroupOptions all{.group = kPipeline, .members = {"node_0", "node_1", "node_2"}};
  all.wait_for_peers = std::chrono::seconds(60);
  std::vector<std::unique_ptr<ZmqLink>> links(3);
  for (const int node : {0, 1}) links[node] = nodes[node]->open(all);
  auto pair = nodes.gather(kRing, {0, 1});
  leave_all(pair);
  nodes.restart(1);
  links[1] = nodes[1]->open(all);
  pair = nodes.gather(kRing + 1, {0, 1});
  leave_all(pair);
  links[2] = nodes[2]->open(all);
  for (const auto& link : links) link->join();
  expect_to_work(links, 0);
  leave_all(links);
}

TEST(UnreachableNode, ThatEndsWithoutAWordIsLost) {
  Endpoints nodes(2, [](EndpointOptions& options) {
    kSecondIsUnreachable(options);
    options.reconnect_grace = milliseconds(300);
    options.heartbeat = milliseconds(100);
  });
  auto links = nodes.gather(kPipeline, {0, 1});
  nodes[1].reset();
  EXPECT_THAT(error_of([&] { receive_number(*links[0], 1, key(4)); }),
              AllOf(HasSubstr("node_1 ("), HasSubstr("is lost"), HasSubstr("connection closed")));
}

TEST(UnreachableNode, FindsItsPeerLost) {
  Endpoints nodes(2, [](EndpointOptions& options) {
    kSecondIsUnreachable(options);
    options.reconnect_grace = milliseconds(300);
  });
  auto links = nodes.gather(kPipeline, {0, 1});
  nodes[0].reset();
  EXPECT_THAT(error_of([&] { receive_number(*links[1], 0, key(4)); }),
              AllOf(HasSubstr("node_0 ("), HasSubstr("is lost"), HasSubstr("connection closed")));
}

TEST(UnreachableNode, LosesNothingOverCuts) {
  constexpr std::int64_t kCount = 200;
  constexpr std::int64_t kElements = 40'000;  // 320 kB: two chunks
  const CapturedLog log;
  Endpoint home(loopback_options(0).endpoint());
  EndpointOptions options = loopback_options(1).endpoint();
  options.reachable = false;
  Endpoint away(options);
  TcpProxy proxy(home.address());
  home.start({{.node = "node_1", .address = "127.0.0.1:1", .reachable = false}});
  away.start({{.node = "node_0", .address = proxy.address()}});
  const GroupOptions group{.members = {"node_0", "node_1"}};
  const std::array<std::unique_ptr<ZmqLink>, 2> links{home.open(group), away.open(group)};
  std::vector<std::jthread> threads;
  for (const int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      links[rank]->join();
      Tensor tensor(DType::kI64, {kElements});
      for (std::int64_t i = 0; i < kCount; ++i) {
        std::iota(tensor.as<std::int64_t>().begin(), tensor.as<std::int64_t>().end(), i);
        links[rank]->send(1 - rank, key(i), tensor.view());
        links[rank]->receive(1 - rank, key(i), tensor.view());
        ASSERT_EQ(tensor.as<std::int64_t>().back(), i + kElements - 1);
        if (rank == 0 && i % 50 == 25) proxy.cut();
      }
      links[rank]->leave();
    });
  }
  threads.clear();
  EXPECT_GT(proxy.connections(), 2);
}

TEST(Endpoint, ItsEndFailsWhatItsLinksWaitFor) {
  Endpoints nodes(2);
  auto links = nodes.gather(kPipeline, {0, 1});
  std::jthread waiting([&] {
    EXPECT_THAT(error_of([&] { receive_number(*links[0], 1, key(0)); }),
                HasSubstr("the endpoint of node_0 has ended"));
  });
  nodes[0].reset();
  waiting.join();
  EXPECT_THAT(error_of([&] { receive_number(*links[0], 1, key(0)); }), HasSubstr("has ended"));
}

}  // namespace
}  // namespace rookery
