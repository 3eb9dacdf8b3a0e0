#include "node/transport/slow_network.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <vector>

#include "tests/node/transport/endpoints.hpp"

namespace rookery {
namespace {

using namespace std::chrono_literals;

constexpr Clock::time_point kStart{1h};

TEST(SlowNetwork, PacketsLeaveBehindEachOther) {
  SlowNetwork network({.mbps = 8, .latency = 5ms});  // a byte a microsecond
  EXPECT_EQ(network.leaves(kStart, 1000, false), kStart + 1ms + 5ms);
  EXPECT_EQ(network.leaves(kStart, 2000, false), kStart + 3ms + 5ms);
  EXPECT_EQ(network.leaves(kStart + 1ms, 1000, false), kStart + 4ms + 5ms);
  EXPECT_EQ(network.leaves(kStart + 10ms, 500, false),
            kStart + 10ms + 500us + 5ms);  // it was free since 4 ms
}

TEST(SlowNetwork, ControlWaitsForNobodyButTakesItsBytes) {
  SlowNetwork network({.mbps = 8, .latency = 5ms});
  EXPECT_EQ(network.leaves(kStart, 4000, false), kStart + 4ms + 5ms);
  EXPECT_EQ(network.leaves(kStart, 1000, true), kStart + 5ms);
  EXPECT_EQ(network.leaves(kStart, 1000, false), kStart + 6ms + 5ms);
}

// Over any while that it is busy, by 5% at most; in truth by a rounding of nanoseconds.
TEST(SlowNetwork, CarriesWhatItIsLimitedTo) {
  for (const double mbps : {0.1, 10.0, 860.0, 10'000.0}) {
    SlowNetwork network({.mbps = mbps});
    Clock::time_point last;
    constexpr int kPackets = 1000;
    constexpr std::size_t kBytes = 30'000;
    for (int i = 0; i < kPackets; ++i) last = network.leaves(kStart, kBytes, false);
    const double took = std::chrono::duration<double>(last - kStart).count();
    EXPECT_NEAR(8e-6 * kBytes * kPackets / took / mbps, 1, 1e-3);
  }
}

TEST(PreciseTimer, IsReadableFromItsMomentOn) {
  PreciseTimer timer;
  pollfd item{timer.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&item, 1, 0), 0);
  const Clock::time_point at = Clock::now() + 3ms;
  timer.set(at);
  EXPECT_EQ(::poll(&item, 1, -1), 1);
  EXPECT_GE(Clock::now(), at);
  timer.set(Clock::time_point::max());
  EXPECT_EQ(::poll(&item, 1, 0), 0);
  timer.set(Clock::now() - 1s);
  EXPECT_EQ(::poll(&item, 1, -1), 1);
}

// There and back takes twice the latency and the time for the bytes at least, and what arrives is what was
// sent.
TEST(SlowNetwork, IsThatOfAnEndpoint) {
  Endpoints nodes(2, [](EndpointOptions& options) {
    options.slow_network = std::make_shared<SlowNetwork>(NetworkLimits{.mbps = 80, .latency = 10ms});
  });
  auto links = nodes.gather(kPipeline, {0, 1});
  const TensorType type{DType::kF32, {50'000}};  // 20 ms
  Tensor sent(type);
  for (std::size_t i = 0; i < sent.as<float>().size(); ++i) sent.as<float>()[i] = static_cast<float>(i);
  Tensor received(type);
  const Clock::time_point begin = Clock::now();
  {
    const std::jthread other([&] {
      Tensor echo(type);
      links[1]->receive(0, key(0), echo.view());
      links[1]->send(0, key(0), echo.view());
    });
    links[0]->send(1, key(0), sent.view());
    links[0]->receive(1, key(0), received.view());
  }
  EXPECT_GE(Clock::now() - begin, 60ms);
  EXPECT_EQ(std::memcmp(sent.view().data, received.view().data, type.bytes()), 0);
  leave_all(links);
}

// What two nodes of one machine send to a third leaves by one connection.
TEST(SlowNetwork, IsSharedByTheNodesOfAMachine) {
  const auto own = std::make_shared<SlowNetwork>(NetworkLimits{.mbps = 8});
  const auto of_other = std::make_shared<SlowNetwork>(NetworkLimits{.mbps = 8000});
  int made = 0;
  Endpoints nodes(3, [&](EndpointOptions& options) { options.slow_network = made++ < 2 ? own : of_other; });
  auto links = nodes.gather(kPipeline, {0, 1, 2});
  Tensor one(DType::kF32, {12'500});  // 50 ms
  Tensor other(one.type());
  const Clock::time_point begin = Clock::now();
  links[0]->send(2, key(0), one.view());
  links[1]->send(2, key(1), other.view());
  links[2]->receive(0, key(0), one.view());
  links[2]->receive(1, key(1), other.view());
  EXPECT_GE(Clock::now() - begin, 100ms);
  leave_all(links);
}

TEST(SlowNetwork, IsNotBetweenTheNodesOfAMachine) {
  const auto own = std::make_shared<SlowNetwork>(NetworkLimits{.mbps = 0.1});
  Endpoints nodes(2, [&](EndpointOptions& options) { options.slow_network = own; });
  auto links = nodes.gather(kPipeline, {0, 1});
  Tensor tensor(DType::kF32, {100'000});  // 32 s
  const Clock::time_point begin = Clock::now();
  links[0]->send(1, key(0), tensor.view());
  links[1]->receive(0, key(0), tensor.view());
  EXPECT_LT(Clock::now() - begin, 16s);
  leave_all(links);
}

}  // namespace
}  // namespace rookery
