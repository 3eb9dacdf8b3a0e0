#include "node/status/figures_exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "tests/node/transport/loopback.hpp"

namespace rookery {
namespace {

using testing::Contains;
using testing::Key;
using testing::Not;

// What the Leaf has kept: curves by name, the numbers by step.
using Kept = std::map<std::string, std::map<std::int64_t, double>>;

FiguresOptions keeping(Kept& kept) {
  return {.period = {}, .keep = [&kept](std::int64_t step, const auto& numbers) {
            for (const auto& [name, number] : numbers) kept[name][step] = number;
          }};
}

TEST(FiguresExchange, TellsSharesOfTheTimeSinceItLastDid) {
  Kept kept;
  FiguresOptions options = keeping(kept);
  options.nodes = {"node_4"};
  std::int64_t rounds = 0;
  options.add_rounds = [&](NodeFigures& figures) {
    figures.rounds = rounds;
    figures.exposed = 0.5 * static_cast<double>(rounds);
    figures.round_bytes = 1'000'000 * static_cast<std::uint64_t>(rounds);
  };
  FiguresExchange leaf(options);
  leaf.after_update({.step = 3, .seconds = 2, .computing = 1.5, .waiting = 0.5}, {});
  EXPECT_THAT(kept, Not(Contains(Key("node_4/rounds")))) << "there were none";
  rounds = 2;
  leaf.after_update({.step = 8, .seconds = 6, .computing = 2.5, .waiting = 3.5}, {});
  EXPECT_EQ(kept["node_4/computing"], (std::map<std::int64_t, double>{{3, 0.75}, {8, 0.25}}));
  EXPECT_EQ(kept["node_4/waiting"], (std::map<std::int64_t, double>{{3, 0.25}, {8, 0.75}}));
  EXPECT_EQ(kept["node_4/rounds"], (std::map<std::int64_t, double>{{8, 2}}));
  EXPECT_EQ(kept["node_4/waiting_for_rounds"], (std::map<std::int64_t, double>{{8, 0.25}}));
  EXPECT_EQ(kept["node_4/sent_mbit_per_second/rounds"], (std::map<std::int64_t, double>{{8, 4}}));
  EXPECT_GT(kept["node_4/memory_mb"][8], 1);
  EXPECT_THAT(kept, Not(Contains(Key("node_4/staleness")))) << "every update was of the newest weights";
}

TEST(FiguresExchange, TellsTheMeanStalenessOfUpdates) {
  Kept kept;
  FiguresOptions options = keeping(kept);
  options.nodes = {"node_0"};
  FiguresExchange leaf(options);
  leaf.after_update({.step = 3, .seconds = 2, .micro_batches = 3, .staleness = 3}, {});
  leaf.after_update({.step = 7, .seconds = 4, .micro_batches = 7, .staleness = 13}, {});
  EXPECT_EQ(kept["node_0/staleness"], (std::map<std::int64_t, double>{{3, 1}, {7, 2.5}}));
}

TEST(FiguresExchange, TellsWhatWentToEachPeer) {
  Kept kept;
  auto links = make_loopback(3, [](LoopbackOptions&) {});
  FiguresOptions options = keeping(kept);
  options.nodes = {"node_1", "node_0", "node_2"};
  options.network = &links[0]->network();
  FiguresExchange root(options);
  options.network = &links[2]->network();
  options.stage = 2;
  FiguresExchange leaf(options);
  const Tensor tensor(TensorType{DType::kF32, {2'500}});
  links[0]->send(1, {.step = 1, .edge = "x"}, tensor.view());
  root.after_update({.step = 1, .seconds = 0.5}, {});
  Tensor into(tensor.type());
  links[1]->receive(0, {.step = 1, .edge = "x"}, into.view());
  std::jthread leaving([&] { links[0]->leave(); });
  std::jthread leaving_too([&] { links[1]->leave(); });
  links[2]->leave();
  leaf.after_update({.step = 2, .seconds = 1}, {});
  EXPECT_DOUBLE_EQ(kept["node_1/sent_mbit_per_second/node_0"][2], 0.16);
  EXPECT_DOUBLE_EQ(kept["node_1/sent_mbit_per_second"][2], 0.16);
  EXPECT_THAT(kept, Not(Contains(Key("node_1/sent_mbit_per_second/node_2")))) << "nothing went there";
}

TEST(FiguresExchange, KeepsToItsPeriod) {
  Kept kept;
  FiguresOptions options = keeping(kept);
  options.nodes = {"node_0"};
  options.period = std::chrono::hours(1);
  FiguresExchange leaf(options);
  leaf.after_update({.step = 1, .seconds = 2}, {});
  EXPECT_TRUE(kept.empty());
}

TEST(FiguresExchange, TheLeafKeepsWhatTheOthersTell) {
  Kept kept;
  auto links = make_loopback(2, [](LoopbackOptions&) {});
  FiguresOptions options = keeping(kept);
  options.nodes = {"node_1", "node_0"};
  options.network = &links[0]->network();
  FiguresExchange root(options);
  options.network = &links[1]->network();
  options.stage = 1;
  FiguresExchange leaf(options);
  root.after_update({.step = 1, .seconds = 4, .computing = 3}, {});
  std::jthread leaving([&] { links[0]->leave(); });
  links[1]->leave();
  leaf.after_update({.step = 2, .seconds = 4, .computing = 1}, {});
  EXPECT_EQ(kept["node_1/computing"][2], 0.75);
  EXPECT_EQ(kept["node_0/computing"][2], 0.25);
  leaf.after_update({.step = 3, .seconds = 5, .computing = 1}, {});
  EXPECT_FALSE(kept["node_1/computing"].contains(3)) << "nothing new was told";
}

}  // namespace
}  // namespace rookery
