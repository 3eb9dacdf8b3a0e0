#include "trainer/checkpoint/reshard/state_routes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const TensorType kWeight{DType::kF32, {10, 20}};

NodeState state_with(const std::vector<std::string>& names) {
  NodeState state;
  for (const std::string& name : names) state.add_to_has(name, kWeight);
  return state;
}
NodeState without(const std::vector<std::string>& names, std::optional<int> from = std::nullopt) {
  NodeState state{.from = from};
  for (const std::string& name : names) state.add_to_wants(name, kWeight);
  return state;
}

std::vector<NodePlace> givers(const OfNodes<NodeState>& nodes) {
  std::vector<NodePlace> from;
  for (const StateRoute& route : state_routes(nodes)) from.push_back(route.from);
  return from;
}

TEST(StateRoutes, TheOwnClusterGivesFirst) {
  EXPECT_THAT(givers({{state_with({"w"})}, {without({"w"}), state_with({"w"}), state_with({"w"})}}),
              ElementsAre(NodePlace{.cluster = 1, .stage = 1}));
  EXPECT_THAT(givers({{without({"w"})}, {state_with({"b"}), state_with({"w"})}, {state_with({"w"})}}),
              ElementsAre(NodePlace{.cluster = 1, .stage = 1}));
}

TEST(StateRoutes, OrTheClusterThatIsAskedForAlone) {
  EXPECT_THAT(givers({{state_with({"w"})},
                      {state_with({"w"}), without({"w"}, 2)},
                      {state_with({"b"}), state_with({"w"})}}),
              ElementsAre(NodePlace{.cluster = 2, .stage = 1}));
  EXPECT_THAT(givers({{state_with({"w"})}, {without({"w"}, 2)}, {state_with({"b"})}}), IsEmpty());
  EXPECT_THAT(givers({{state_with({"w"})}, {without({"w"}, 7)}}), IsEmpty());  // there is none
}

TEST(StateRoutes, OneRouteServesAllWhoWantTheSame) {
  const auto routes = state_routes({{state_with({"w"})}, {without({"w"}), without({"w"})}, {without({"w"})}});
  ASSERT_THAT(routes, SizeIs(1));
  EXPECT_THAT(routes[0].to, ElementsAre(NodePlace{1, 0}, NodePlace{1, 1}, NodePlace{2, 0}));
}

TEST(StateRoutes, LargeTensorsGoInRanges) {
  const auto ranges = ranges_of("w", 2 * kMostOfRange + 4);
  ASSERT_THAT(ranges, SizeIs(3));
  EXPECT_EQ(ranges[1], (StateRange{"w", kMostOfRange, kMostOfRange}));
  EXPECT_EQ(ranges[2], (StateRange{"w", 2 * kMostOfRange, 4}));
}

TEST(StateRoutes, WhatIsNotInTheTensorIsRefused) {
  struct Case {
    std::uint64_t begin, bytes;
  };
  for (const Case& wrong : {Case{0, 801}, Case{800, 1}, Case{~0ULL, 2}, Case{4, 0}}) {
    NodeState taker = without({"w"});
    taker.wants = {{.name = "w", .begin = wrong.begin, .bytes = wrong.bytes}};
    try {
      state_routes({{state_with({"w"})}, {taker}});
      FAIL() << wrong.begin;
    } catch (const TransportError& error) {
      EXPECT_THAT(error.what(), HasSubstr("stage 0 of cluster 1 asks for "));
      EXPECT_THAT(error.what(), HasSubstr("of w from byte "));
    }
  }
}

TEST(StateRoutes, RangesAreBounded) {
  NodeState taker;
  const TensorType large{DType::kU8, {static_cast<std::int64_t>(3 * kMostOfRange)}};
  taker.add_to_wants("w", large);
  taker.wants = {{.name = "w", .begin = 0, .bytes = kMostOfRange + 1}};
  NodeState giver;
  giver.add_to_has("w", large);
  EXPECT_THROW(state_routes({{giver, taker}}), TransportError);
}

TEST(StateRoutes, AnotherModelIsRefused) {
  NodeState other;
  other.add_to_wants("w", {DType::kF32, {20, 10}});
  try {
    state_routes({{state_with({"w"})}, {other}});
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(
        error.what(),
        "w is of type f32[10, 20] on stage 0 of cluster 0 and of f32[20, 10] on stage 0 of cluster 1: "
        "these are not of one model");
  }
}

TEST(NodeState, IsToldAsJson) {
  NodeState state = without({"w", "b"}, 3);
  state.add_to_has("x", kWeight);
  const auto again = nlohmann::json::parse(nlohmann::json(state).dump()).get<NodeState>();
  EXPECT_EQ(again.has.at("x").text, "f32[10, 20]");
  EXPECT_EQ(again.has.at("x").bytes, 800U);
  EXPECT_EQ(again.lacks.at("b").bytes, 800U);
  EXPECT_EQ(again.wants, state.wants);
  EXPECT_EQ(again.from, 3);
  for (const char* wrong :
       {"{}", "[]", R"({"has": {"w": 3}, "lacks": {}, "wants": []})",
        R"({"has": {"w": ["f32[1]", 1e30]}, "lacks": {}, "wants": []})",
        R"({"has": {}, "lacks": {}, "wants": [["w", 0]]})",
        R"({"has": {}, "lacks": {}, "wants": [["w", 0, 0.5]]})", R"({"has": {}, "lacks": {}, "wants": null})",
        R"({"has": {}, "lacks": {}, "wants": [], "from": 1e30})",
        R"({"has": {}, "lacks": {}, "wants": [], "from": "all"})"})
    EXPECT_THROW(nlohmann::json::parse(wrong).get<NodeState>(), nlohmann::json::exception) << wrong;
}

}  // namespace
}  // namespace rookery
