#include "clusterize/order/connected.hpp"

#include <gtest/gtest.h>

#include "tests/clusterize/chain_model.hpp"

namespace rookery {
namespace {

// Of six nodes, these cannot be reached.
Grouping connected_without(std::initializer_list<int> unreachable, const Grouping& grouping) {
  Json document = equal_nodes(6);
  for (const int node : unreachable) document[std::to_string(node)]["reachable"] = false;
  const NodePool pool = pool_of(document);
  const ModelCosts costs = chain(4);
  return connected(ThroughputModel(pool, costs), grouping);
}

TEST(Connected, WhatCanConnectStaysAsItIs) {
  const Grouping all{.clusters = {{3, 0, 1}, {5, 4}}, .left_out = {2}};
  EXPECT_EQ(connected_without({}, all), all);
  EXPECT_EQ(connected_without({0}, all), all);
  EXPECT_EQ(connected_without({0, 2}, all), all) << "the other is left out";
  const Grouping one{.clusters = {{0}}, .left_out = {1, 2, 3, 4, 5}};
  EXPECT_EQ(connected_without({0, 1}, one), one);
}

TEST(Connected, AClusterKeepsTheFirstThatCannotBeReached) {
  EXPECT_EQ(connected_without({0, 1, 4}, {.clusters = {{3, 1, 0, 2, 4}}, .left_out = {5}}),
            (Grouping{.clusters = {{3, 1, 2}}, .left_out = {5, 0, 4}}));
}

// Otherwise two would be neighbours in every ring.
TEST(Connected, AtMostHalfOfTheClustersHaveSuchANode) {
  EXPECT_EQ(connected_without({0, 1, 2}, {.clusters = {{0}, {1}, {3}, {2}, {4, 5}}}),
            (Grouping{.clusters = {{0}, {1}, {3}, {4, 5}}, .left_out = {2}}));
  EXPECT_EQ(connected_without({0, 1, 2, 3}, {.clusters = {{0}, {1}, {2}, {3}}, .left_out = {4, 5}}),
            (Grouping{.clusters = {{0}}, .left_out = {4, 5, 3, 2, 1}}));
}

}  // namespace
}  // namespace rookery
