#include "clusterize/simulation/flow_network.hpp"

#include <gtest/gtest.h>

#include "models/base/rng.hpp"

namespace rookery {
namespace {

TEST(FlowNetwork, AMessageAloneHasTheWholeWay) {
  FlowNetwork network({100, 100}, {{0, 1, 0.5, 20}});
  EXPECT_EQ(network.next(), FlowNetwork::kNever);
  network.send(3, 0, 7, 60);
  EXPECT_DOUBLE_EQ(network.next(), 6);
  const FlowNetwork::Departure departure = network.take();
  EXPECT_EQ(departure.message, 7);
  EXPECT_EQ(departure.begin, 3);
  EXPECT_EQ(network.next(), FlowNetwork::kNever);
}

TEST(FlowNetwork, MessagesOfOneWayFollowEachOther) {
  FlowNetwork network({100, 100}, {{0, 1, 0, 10}});
  network.send(0, 0, 0, 10);
  network.send(0, 0, 1, 20);
  EXPECT_DOUBLE_EQ(network.next(), 1);
  EXPECT_EQ(network.take().message, 0);
  EXPECT_DOUBLE_EQ(network.next(), 3);
  EXPECT_EQ(network.take().message, 1);
}

TEST(FlowNetwork, WaysOutOfOneNodeShareItsConnection) {
  FlowNetwork network({10, 100, 100}, {{0, 1, 0, 10}, {0, 2, 0, 10}});
  network.send(0, 0, 0, 10);
  network.send(0, 1, 1, 20);
  EXPECT_DOUBLE_EQ(network.next(), 2);  // 5 a second each
  EXPECT_EQ(network.take().message, 0);
  EXPECT_DOUBLE_EQ(network.next(), 3);  // the other has 10 left, and the connection for itself
  EXPECT_EQ(network.take().message, 1);
}

TEST(FlowNetwork, WhatASlowWayCannotUseGoesToTheOthers) {
  FlowNetwork network({100, 100, 10}, {{0, 2, 0, 2}, {1, 2, 0, 10}});
  network.send(0, 0, 0, 4);
  network.send(0, 1, 1, 16);
  EXPECT_DOUBLE_EQ(network.next(), 2);  // at 2 and at 8 a second
  network.take();
  EXPECT_DOUBLE_EQ(network.next(), 2);
  network.take();
}

TEST(FlowNetwork, BothDirectionsAreApart) {
  FlowNetwork network({10, 10}, {{0, 1, 0, 10}, {1, 0, 0, 10}});
  network.send(0, 0, 0, 10);
  network.send(0, 1, 1, 10);
  network.take();
  EXPECT_DOUBLE_EQ(network.next(), 1);
}

// Whatever is sent when: every message leaves once, and no connection carries more than it can.
TEST(FlowNetwork, NoConnectionIsOverloaded) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CounterRng rng(rng_key(seed, "flow_network_test"), 0);
    const std::vector<double> connections{10, 20, 5, 40};
    std::vector<FlowWay> ways;
    for (int from = 0; from < 4; ++from) {
      for (int to = 0; to < 4; ++to) {
        if (from != to) ways.push_back({from, to, 0, 1.0 + rng.next_below(20)});
      }
    }
    FlowNetwork network(connections, ways);
    std::vector<double> out(4, 0);
    std::vector<double> in(4, 0);
    double now = 0;
    int left = 0;
    int sent = 0;
    const auto take_until = [&](double time) {
      for (; network.next() <= time; ++left) now = network.next(), network.take();
    };
    for (; sent < 100; ++sent) {
      const double time = now + 0.5 * rng.next_below(4);
      take_until(time);
      const std::size_t way = rng.next_below(12);
      const double bytes = 1 + rng.next_below(50);
      network.send(time, way, sent, bytes);
      now = time;
      out[ways[way].from] += bytes;
      in[ways[way].to] += bytes;
    }
    while (network.next() < FlowNetwork::kNever) take_until(network.next());
    EXPECT_EQ(left, sent);
    for (std::size_t node = 0; node < 4; ++node) {
      EXPECT_LE(out[node], connections[node] * now * (1 + 1e-9));
      EXPECT_LE(in[node], connections[node] * now * (1 + 1e-9));
    }
  }
}

}  // namespace
}  // namespace rookery
