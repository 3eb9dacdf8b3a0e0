// What a ZmqLink does when the network, or a peer of ours, misbehaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <vector>

#include "models/base/error.hpp"
#include "tests/node/transport/loopback.hpp"
#include "tests/node/transport/message_keys.hpp"
#include "tests/node/transport/no_free_descriptors.hpp"
#include "tests/node/transport/tcp_proxy.hpp"
#include "tests/support/captured_log.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

Tensor numbered(std::int64_t number, std::int64_t elements) {
  Tensor tensor(DType::kI64, {elements});
  std::iota(tensor.as<std::int64_t>().begin(), tensor.as<std::int64_t>().end(), number);
  return tensor;
}

bool arrives(Link& link, int from, std::int64_t number, std::int64_t elements) {
  const Tensor expected = numbered(number, elements);
  Tensor got(DType::kI64, {elements});
  link.receive(from, key(number), got.view());
  return std::ranges::equal(got.as<std::int64_t>(), expected.as<std::int64_t>());
}

template <typename Action>
std::string transport_error(Action&& action) {
  try {
    action();
  } catch (const TransportError& error) {
    return error.what();
  }
  return "no TransportError";
}

const auto kUnchanged = [](LoopbackOptions&) {};

// Two links that reach each other through proxies, as on two machines unless `change` says otherwise.
struct ProxiedPair {
  template <typename Change>
  explicit ProxiedPair(Change change) {
    for (int stage = 0; stage < 2; ++stage) {
      LoopbackOptions options = loopback_options(stage);
      options.shares_memory = false;
      change(options);
      links.push_back(std::make_unique<LoopbackLink>(options));
      proxies.push_back(std::make_unique<TcpProxy>(links.back()->address()));
    }
    std::jthread other([&] { links[1]->join({{0, "node_0", proxies[0]->address()}}); });
    links[0]->join({{1, "node_1", proxies[1]->address()}});
  }
  std::vector<std::unique_ptr<LoopbackLink>> links;
  std::vector<std::unique_ptr<TcpProxy>> proxies;  // in front of the link with the same index
};

// Sends 400 tensors of two chunks, and calls `disturb` before each is received.
template <typename Disturb>
void expect_all_arrive(ProxiedPair& pair, Disturb disturb) {
  constexpr std::int64_t kCount = 400;
  constexpr std::int64_t kElements = 40'000;  // 320 kB
  std::jthread sender([&] {
    for (std::int64_t i = 0; i < kCount; ++i) pair.links[0]->send(1, key(i), numbered(i, kElements).view());
    pair.links[0]->leave();
  });
  for (std::int64_t i = 0; i < kCount; ++i) {
    disturb(i);
    ASSERT_TRUE(arrives(*pair.links[1], 0, i, kElements)) << i;
  }
  pair.links[1]->leave();
}

void expect_all_arrive_over_cuts(ProxiedPair& pair) {
  const CapturedLog log;
  expect_all_arrive(pair, [&](std::int64_t i) {
    if (i % 100 == 50) pair.proxies[1]->cut();  // data, and acknowledgements are answered
    if (i % 100 == 80) pair.proxies[0]->cut();  // acknowledgements
  });
  EXPECT_GT(pair.proxies[1]->connections(), 2);
}

TEST(ZmqLinkFaults, NothingIsLostOrDoubledOverCuts) {
  ProxiedPair pair(kUnchanged);
  expect_all_arrive_over_cuts(pair);
  EXPECT_GT(pair.proxies[1]->bytes(), 400 * 320'000U);
}

TEST(ZmqLinkFaults, NothingIsLostOrDoubledOverCutsWhereMemoryIsRead) {
  ProxiedPair pair([](LoopbackOptions& options) { options.shares_memory = true; });
  expect_all_arrive_over_cuts(pair);
  EXPECT_LT(pair.proxies[1]->bytes(), 4'000'000U) << "tensors went through sockets";
}

TEST(ZmqLinkFaults, AConnectionWaitsForAFreeDescriptor) {
#ifdef ROOKERY_SANITIZED
  GTEST_SKIP() << "a sanitizer's checks take descriptors themselves";
#endif
  for (const bool shares_memory : {false, true}) {
    ProxiedPair pair([&](LoopbackOptions& options) { options.shares_memory = shares_memory; });
    CapturedLog log;
    expect_all_arrive(pair, [&](std::int64_t i) {
      if (i != 50) return;
      const NoFreeDescriptors meanwhile;
      pair.proxies[1]->cut();
      EXPECT_TRUE(log.has("cannot connect to node_1 (")) << testing::PrintToString(log.lines());
    });
  }
}

TEST(ZmqLinkFaults, MemoryIsReadOnlyWhereBothShareIt) {
  for (const int shares : {0, 1}) {
    ProxiedPair pair([&](LoopbackOptions& options) { options.shares_memory = options.rank == shares; });
    expect_all_arrive(pair, [](std::int64_t) {});
    EXPECT_GT(pair.proxies[1]->bytes(), 400 * 320'000U);
  }
}

TEST(ZmqLinkFaults, NothingIsLostOrDoubledWhereOneOfSeveralConnectionsIsCut) {
  constexpr int kConnections = 4;
  const CapturedLog log;
  ProxiedPair pair([](LoopbackOptions& options) { options.connections = kConnections; });
  EXPECT_GE(pair.proxies[1]->connections(),
            1 + kConnections);  // some are opened twice as peers find each other
  const int before = pair.proxies[1]->connections();
  expect_all_arrive(pair, [&](std::int64_t i) {
    if (i % 50 == 20) pair.proxies[1]->cut(i % 100 == 20 ? 1 : 2);
    if (i == 370) pair.proxies[1]->cut();
  });
  EXPECT_GT(pair.proxies[1]->connections(), before + kConnections);
}

TEST(ZmqLinkFaults, ASlowConsumerStaysWithinTheBudget) {
  constexpr std::int64_t kElements = 1 << 15;  // 256 KiB: one chunk
  constexpr std::uint64_t kBudget = 1 << 20;
  auto links = make_loopback(2, [](LoopbackOptions& options) {
    options.deadline = milliseconds(1000);
    options.send_budget = options.receive_budget = kBudget;
    options.max_message_bytes = kElements * 8;
  });
  std::int64_t sent = 0;
  const std::string message = transport_error([&] {
    for (; sent < 100; ++sent) links[0]->send(1, key(sent), numbered(sent, kElements).view());
  });
  EXPECT_THAT(message, testing::AllOf(HasSubstr("activation x of step"), HasSubstr("node_1")));
  // No more than both budgets hold.
  EXPECT_LE(sent, static_cast<std::int64_t>(2 * kBudget / (kElements * 8)));
  for (std::int64_t i = 0; i < sent; ++i) EXPECT_TRUE(arrives(*links[1], 0, i, kElements));
}

TEST(ZmqLinkFaults, ATensorBeyondThePlanIsNotSent) {
  auto links = make_loopback(2, [](LoopbackOptions& options) { options.max_message_bytes = 1000; });
  EXPECT_THAT(transport_error([&] { links[0]->send(1, key(0), numbered(0, 126).view()); }),
              testing::AllOf(HasSubstr("1008 bytes"), HasSubstr("at most 1000")));
}

TEST(ZmqLinkFaults, APulledCableIsFoundBySilence) {
  ProxiedPair pair([](LoopbackOptions& options) {
    options.peer_timeout = milliseconds(600);
    options.heartbeat = milliseconds(100);
  });
  for (const auto& proxy : pair.proxies) proxy->swallow();
  EXPECT_THAT(transport_error([&] { arrives(*pair.links[0], 1, 7, 1); }),
              testing::AllOf(HasSubstr("activation x of step 7"), HasSubstr("node_1 ("),
                             HasSubstr("is lost: nothing heard")));
}

TEST(ZmqLinkFaults, APeerThatEndsWithoutAWordIsLost) {
  auto links =
      make_loopback(3, [](LoopbackOptions& options) { options.reconnect_grace = milliseconds(300); });
  links[2].reset();
  for (const int stage : {0, 1}) {
    const std::string message = transport_error([&] { arrives(*links[stage], 1 - stage, 5, 1); });
    EXPECT_THAT(message, testing::AllOf(HasSubstr("step 5"), HasSubstr("node_2 ("), HasSubstr("is lost: "),
                                        HasSubstr("connection closed")));
    // And every call from then on.
    EXPECT_THAT(transport_error([&] {
                  links[stage]->flush();
                  links[stage]->send(1 - stage, key(6), numbered(0, 1).view());
                }),
                HasSubstr("node_2 ("));
  }
}

TEST(ZmqLinkFaults, AStopReachesAllAndSaysWhy) {
  auto links = make_loopback(3, kUnchanged);
  const std::string failing = "node_1 (" + links[1]->address() + ")";
  std::vector<std::jthread> others;
  for (const int stage : {0, 2}) {
    others.emplace_back([&, stage] {
      EXPECT_THAT(transport_error([&] { arrives(*links[stage], 1, 3, 1); }),
                  testing::AllOf(HasSubstr(failing + " failed: losses.txt: No space"), HasSubstr("step 3")));
    });
  }
  links[1]->stop("failed: losses.txt: No space left on device");
  links[1].reset();
}

TEST(ZmqLinkFaults, AllLeaveTogether) {
  auto links = make_loopback(3, kUnchanged);
  std::vector<std::jthread> threads;
  for (auto& link : links) {
    threads.emplace_back([&link] {
      link->leave();
      link.reset();
    });
  }
}

TEST(ZmqLinkFaults, AReceiveFromAPeerThatHasLeftFailsAtOnce) {
  auto links = make_loopback(2, kUnchanged);
  links[0]->send(1, key(0), numbered(0, 1).view());
  std::jthread leaving([&] { links[0]->leave(); });
  EXPECT_TRUE(arrives(*links[1], 0, 0, 1));
  EXPECT_THAT(transport_error([&] { arrives(*links[1], 0, 1, 1); }), HasSubstr("has ended its run"));
  links[1]->leave();
}

TEST(ZmqLinkFaults, MissingPeersAreNamed) {
  LoopbackOptions options = loopback_options(0);
  options.wait_for_peers = milliseconds(200);
  LoopbackLink link(options);
  EXPECT_THAT(transport_error([&] {
                link.join({{1, "node_1", "127.0.0.1:1"}});
              }),
              HasSubstr("gave up after 0 s: node_1 (127.0.0.1:1) never answered; is its provider running?"));
}

TEST(ZmqLinkFaults, APeerOfAnotherPlanIsRefusedAndBothSayWhy) {
  CapturedLog log;
  std::vector<std::unique_ptr<LoopbackLink>> links;
  for (int stage = 0; stage < 2; ++stage) {
    LoopbackOptions options = loopback_options(stage);
    options.key.plan_id = stage == 0 ? "aaaaaaaaaaaaaaaa" : "bbbbbbbbbbbbbbbb";
    options.wait_for_peers = seconds(1);
    links.push_back(std::make_unique<LoopbackLink>(options));
  }
  std::jthread other([&] {
    EXPECT_THAT(transport_error([&] { links[1]->join(peers_of(links, 1)); }),
                HasSubstr("runs plan aaaaaaaaaaaaaaaa"));
  });
  EXPECT_THAT(transport_error([&] { links[0]->join(peers_of(links, 0)); }),
              HasSubstr("runs plan bbbbbbbbbbbbbbbb"));
  // Told at once: by whichever of the two has found it out first.
  EXPECT_TRUE(log.holds("copy node_data from the same clusterize run to every machine"));
}

// Both made their plan themselves, of the same files: the plan is the same, but for what only its writer
// knows.
TEST(ZmqLinkFaults, APeerOfAnotherClusterizeRunIsRefused) {
  std::vector<std::unique_ptr<LoopbackLink>> links;
  for (int stage = 0; stage < 2; ++stage) {
    LoopbackOptions options = loopback_options(stage);
    if (stage == 1) options.key.token = std::string(32, 'f');
    options.wait_for_peers = seconds(1);
    links.push_back(std::make_unique<LoopbackLink>(options));
  }
  const auto kAdvice = HasSubstr("copy node_data from the same clusterize run to every machine");
  std::jthread other(
      [&] { EXPECT_THAT(transport_error([&] { links[1]->join(peers_of(links, 1)); }), kAdvice); });
  EXPECT_THAT(transport_error([&] { links[0]->join(peers_of(links, 0)); }), kAdvice);
}

TEST(ZmqLinkFaults, AHostThatDoesNotResolveIsToldAtOnce) {
  std::promise<std::string> told;
  LoopbackOptions options = loopback_options(0);
  options.wait_for_peers = seconds(3600);
  options.on_waiting = [&](const std::string& text) { told.set_value(text); };
  LoopbackLink link(options);
  link.begin_to_join({{1, "node_1", "no-such-host.invalid:8080"}});
  std::jthread joining(
      [&] { EXPECT_THAT(transport_error([&] { link.join(); }), HasSubstr("that will do")); });
  EXPECT_EQ(told.get_future().get(),
            "waiting for node_1 (no-such-host.invalid:8080): this machine cannot resolve the host name "
            "no-such-host.invalid; check node_configs.json, or /etc/hosts here");
  link.stop("that will do");
}

TEST(ZmqLinkFaults, TheLastStagesStatusReachesTheOthers) {
  auto links = make_loopback(2, kUnchanged);
  EXPECT_FALSE(links[0]->heard_status());
  links[1]->tell_status({.epoch = 3, .step = 41, .loss = 0.5, .accuracy = 97.5});
  std::jthread leaving([&] { links[1]->leave(); });
  links[0]->leave();  // the status travels before the farewell
  const auto heard = links[0]->heard_status();
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->step, 41);
  EXPECT_EQ(heard->loss, 0.5);
  EXPECT_EQ(heard->accuracy, 97.5);
}

TEST(ZmqLinkFaults, TheFiguresOfTheOthersReachTheLastStageOnce) {
  auto links = make_loopback(3, kUnchanged);
  ZmqLink& last = links[2]->network();
  EXPECT_FALSE(last.take_figures(0));
  links[0]->network().tell_figures({.seconds = 4, .computing = 3, .resident = 1U << 20});
  links[1]->network().tell_figures({.seconds = 5, .waiting = 2, .rounds = 7, .exposed = 0.5});
  std::vector<std::jthread> leaving;
  for (auto& link : links) leaving.emplace_back([&link] { link->leave(); });
  leaving.clear();  // what was told travels before the farewell
  const auto root = last.take_figures(0);
  const auto stem = last.take_figures(1);
  ASSERT_TRUE(root && stem);
  EXPECT_EQ(root->computing, 3);
  EXPECT_EQ(root->resident, 1U << 20);
  EXPECT_EQ(stem->waiting, 2);
  EXPECT_EQ(stem->rounds, 7);
  EXPECT_FALSE(last.take_figures(0));
}

}  // namespace
}  // namespace rookery
