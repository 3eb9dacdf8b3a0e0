#include "trainer/schedule/machine_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "models/base/check.hpp"
#include "models/base/error.hpp"

namespace rookery {
namespace {

ScheduleSettings zbv() {
  return {.name = "zbv"};
}

ScheduleSettings interleaved_of(int chunks = 2) {
  return {.name = "interleaved", .chunks = chunks};
}

// "F0.3 B2.1 …": stage and micro-batch.
std::string order_text(const ScheduleSettings& settings, int machine, int stages, int micro_batches) {
  std::string text;
  for (const StageAction& action : machine_order(settings, machine, stages, micro_batches)) {
    if (!text.empty()) text += ' ';
    text += static_cast<char>(action.kind) + std::to_string(action.stage) + '.' +
            std::to_string(action.micro_batch);
  }
  return text;
}

TEST(StagePlacement, ChunksGoRoundTheMachinesOrTurnBack) {
  EXPECT_EQ(placement_on(interleaved_of(3), 4), (StagePlacement{.machines = 4, .chunks = 3}));
  EXPECT_EQ(placement_on({.name = "interleaved"}, 4), (StagePlacement{.machines = 4, .chunks = 2}));
  EXPECT_EQ(placement_on(zbv(), 4), (StagePlacement{.machines = 4, .chunks = 2, .turns_back = true}));
  const StagePlacement round = placement_of(interleaved_of(), 6);
  const StagePlacement back = placement_of(zbv(), 6);
  std::vector<int> round_machines;
  std::vector<int> back_machines;
  for (int stage = 0; stage < 6; ++stage) {
    round_machines.push_back(round.machine_of(stage));
    back_machines.push_back(back.machine_of(stage));
  }
  EXPECT_THAT(round_machines, testing::ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(back_machines, testing::ElementsAre(0, 1, 2, 2, 1, 0));
}

TEST(StagePlacement, OfOneMachineOrWithoutChunksIsAStageOnEach) {
  EXPECT_EQ(placement_on(zbv(), 1), StagePlacement{});
  EXPECT_EQ(placement_of(interleaved_of(4), 1), StagePlacement{});
  EXPECT_EQ(placement_of({.chunks = 3}, 5), (StagePlacement{.machines = 5}));
  EXPECT_FALSE(has_chunks({.chunks = 3}));
  EXPECT_TRUE(has_chunks(zbv()));
}

TEST(StagePlacement, IsOfAsManyStagesAsAClusterMayHave) {
  for (const int stages : {0, 2, 3, 7})
    EXPECT_THROW(placement_of(interleaved_of(), stages), BugError) << stages;
  for (const int stages : {2, 3, 5}) EXPECT_THROW(placement_of(zbv(), stages), BugError) << stages;
  EXPECT_THROW(placement_on(interleaved_of(1), 4), BugError);
  EXPECT_THROW(placement_on(interleaved_of(kMostChunks + 1), 4), BugError);
  EXPECT_THROW(placement_on({.name = kAutoSchedule}, 4), ConfigError);
  EXPECT_EQ(stages_within(interleaved_of(3), 5), 1);
  EXPECT_EQ(stages_within(interleaved_of(3), 6), 6);
  EXPECT_EQ(stages_within(interleaved_of(3), 8), 6);
  EXPECT_EQ(stages_within(zbv(), 3), 1);
  EXPECT_EQ(stages_within({}, 5), 5);
}

TEST(MachineOrder, GroupsOfMicroBatchesGoRoundTheMachines) {
  EXPECT_EQ(order_text(interleaved_of(), 0, 4, 4),
            "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 W2.0 F0.3 B2.1 W2.1 F2.2 B0.0 W0.0 F2.3 B0.1 W0.1 "
            "B2.2 W2.2 B2.3 W2.3 B0.2 W0.2 B0.3 W0.3");
  EXPECT_EQ(order_text(interleaved_of(), 1, 4, 4),
            "F1.0 F1.1 F3.0 B3.0 W3.0 F3.1 B3.1 W3.1 F1.2 B1.0 W1.0 F1.3 B1.1 W1.1 "
            "F3.2 B3.2 W3.2 F3.3 B3.3 W3.3 B1.2 W1.2 B1.3 W1.3");
  EXPECT_EQ(order_text(interleaved_of(), 1, 4, 3),  // that of four, without the last
            "F1.0 F1.1 F3.0 B3.0 W3.0 F3.1 B3.1 W3.1 F1.2 B1.0 W1.0 B1.1 W1.1 F3.2 B3.2 W3.2 B1.2 W1.2");
  EXPECT_EQ(order_text(interleaved_of(3), 0, 6, 1), "F0.0 F2.0 F4.0 B4.0 W4.0 B2.0 W2.0 B0.0 W0.0");
}

TEST(MachineOrder, GradientsOfWeightsWaitWhereThePipelineTurnsBack) {
  EXPECT_EQ(order_text(zbv(), 0, 4, 4),
            "F0.0 F0.1 F0.2 F3.0 B3.0 W3.0 F3.1 B3.1 W3.1 F0.3 B0.0 W0.0 F3.2 B3.2 W3.2 B0.1 W0.1 "
            "F3.3 B3.3 W3.3 B0.2 W0.2 B0.3 W0.3");
  EXPECT_EQ(order_text(zbv(), 1, 4, 4),
            "F1.0 F2.0 F1.1 F2.1 B2.0 W2.0 F1.2 B1.0 W1.0 F2.2 B2.1 W2.1 F1.3 B1.1 W1.1 F2.3 B2.2 W2.2 "
            "B1.2 B2.3 B1.3 W1.2 W2.3 W1.3");
  EXPECT_EQ(order_text(zbv(), 0, 4, 1), "F0.0 F3.0 B3.0 W3.0 B0.0 W0.0");
  EXPECT_EQ(order_text(zbv(), 1, 4, 1), "F1.0 F2.0 B2.0 W2.0 B1.0 W1.0");
}

TEST(MachineOrder, OfOneMachineIs1f1b) {
  for (const ScheduleSettings& settings : {zbv(), interleaved_of()}) {
    EXPECT_EQ(order_text(settings, 0, 1, 2), "F0.0 B0.0 W0.0 F0.1 B0.1 W0.1");
    EXPECT_EQ(actions(Schedule(settings, 0, 1, 2, 3)), actions(Schedule({}, 0, 1, 2, 3)));
    EXPECT_EQ(in_flight(settings, 0, 1, 8), 1);
    EXPECT_EQ(slots(settings, 0, 1, 8), 1);
    EXPECT_FALSE(delays_weights(settings, 0, 1, 8));
  }
}

TEST(MachineOrder, IsOfSchedulesWithChunks) {
  EXPECT_THROW(machine_order({}, 0, 4, 4), BugError);
  EXPECT_THROW(machine_order(zbv(), 2, 4, 4), BugError);
  EXPECT_THROW(machine_order(zbv(), -1, 4, 4), BugError);
  EXPECT_THROW(machine_order(zbv(), 0, 4, 0), BugError);
}

TEST(MachineOrder, AStageRepeatsItsPartInEveryBatch) {
  const auto text = [](int stage) { return to_string(actions(Schedule(zbv(), stage, 4, 2, 4)), 4); };
  EXPECT_EQ(text(0), "F0 F1 F2 F3 B0 W0 B1 W1 B2 W2 B3 W3 U0 F4 F5 F6 F7 B4 W4 B5 W5 B6 W6 B7 W7 U1");
  EXPECT_EQ(text(1), "F0 F1 F2 B0 W0 F3 B1 W1 B2 B3 W2 W3 U0 F4 F5 F6 B4 W4 F7 B5 W5 B6 B7 W6 W7 U1");
  EXPECT_EQ(text(3), "F0 B0 W0 F1 B1 W1 F2 B2 W2 F3 B3 W3 U0 F4 B4 W4 F5 B5 W5 F6 B6 W6 F7 B7 W7 U1");
}

TEST(MachineOrder, SaysWhatAStageKeeps) {
  const auto numbers = [](auto function, const ScheduleSettings& settings, int stages) {
    std::vector<int> all;
    for (int stage = 0; stage < stages; ++stage) all.push_back(function(settings, stage, stages, 12));
    return all;
  };
  using testing::ElementsAre;
  EXPECT_THAT(numbers(in_flight, interleaved_of(), 6), ElementsAre(6, 6, 4, 3, 3, 1));
  EXPECT_THAT(numbers(slots, interleaved_of(), 6), ElementsAre(6, 6, 4, 3, 3, 1));
  EXPECT_THAT(numbers(weights_behind, interleaved_of(), 6), testing::Each(0));
  EXPECT_THAT(numbers(in_flight, zbv(), 6), ElementsAre(6, 5, 4, 3, 2, 1));
  EXPECT_THAT(numbers(weights_behind, zbv(), 6), ElementsAre(0, 1, 2, 1, 0, 0));
  const auto delays = [](const ScheduleSettings& settings, int stage) {
    return delays_weights(settings, stage, 6, 12);
  };
  EXPECT_TRUE(delays(zbv(), 2));
  EXPECT_FALSE(delays(zbv(), 0));
  EXPECT_FALSE(delays(interleaved_of(), 2));
  EXPECT_TRUE(delays({.name = "zb"}, 2));
  EXPECT_FALSE(delays({.name = "zb"}, 0));
  EXPECT_FALSE(delays({}, 2));
}

TEST(MachineOrder, SaysHowManyForwardsComeBeforeAnyGradient) {
  const auto ahead = [](const ScheduleSettings& settings, int stages, int micro_batches) {
    std::vector<int> all;
    for (int stage = 0; stage < stages; ++stage)
      all.push_back(forwards_ahead(settings, stage, stages, micro_batches));
    return all;
  };
  EXPECT_THAT(ahead(zbv(), 4, 8), testing::ElementsAre(3, 2, 2, 1));
  EXPECT_THAT(ahead(zbv(), 6, 12), testing::ElementsAre(5, 4, 3, 3, 2, 1));
  EXPECT_THAT(ahead(zbv(), 4, 1), testing::Each(1));
  EXPECT_THAT(ahead({.name = "zb"}, 4, 8), testing::ElementsAre(4, 3, 2, 1)) << "as many as are in flight";
}

TEST(MachineOrder, LeavesNothingToSettings) {
  const ScheduleSettings settings{.name = "zbv", .in_flight = 9};
  EXPECT_EQ(in_flight(settings, 1, 4, 8), in_flight(zbv(), 1, 4, 8));
  EXPECT_EQ(most_in_flight(settings, 1, 4, 8), in_flight(zbv(), 1, 4, 8));
  EXPECT_EQ(staleness(settings, 1, 4, 8), 0);
  EXPECT_EQ(actions(Schedule(settings, 1, 4, 1, 8)), actions(Schedule(zbv(), 1, 4, 1, 8)));
}

ScheduleSettings planned(ScheduleSettings settings, int first) {
  settings.planned = {first};
  return settings;
}

// Of a row of 4 machines the first and the third, where 2 machines have chunks that go round, and of 3 the
// first and the last, where they turn back.
TEST(MachineOrder, IsThatOfALongerRowWhereMoreAreInFlight) {
  const auto numbers = [](const ScheduleSettings& settings, int stages) {
    std::vector<int> all;
    for (int stage = 0; stage < stages; ++stage) all.push_back(in_flight(settings, stage, stages, 30));
    return all;
  };
  using testing::ElementsAre;
  EXPECT_THAT(numbers(interleaved_of(), 4), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(numbers(planned(interleaved_of(), 4), 4), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(numbers(zbv(), 4), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(numbers(planned(zbv(), 3), 4), ElementsAre(4, 3, 2, 1));
  for (const int first : {5, 6}) EXPECT_THAT(numbers(planned(zbv(), first), 4), ElementsAre(6, 4, 3, 1));
  for (const int first : {5, 8}) {
    const std::vector<int> longer = numbers(interleaved_of(), 8);
    EXPECT_THAT(numbers(planned(interleaved_of(), first), 4),
                ElementsAre(longer[0], longer[2], longer[4], longer[6]));
  }
  EXPECT_EQ(in_flight(planned(zbv(), 100), 3, 4, 8), 1);
  EXPECT_EQ(in_flight(planned(zbv(), 100), 0, 4, 8), 8);
}

// In units of time.
struct ActionTimes {
  int forward = 1;
  int inputs = 1;
  int weights = 1;
};

// All machines against each other: each keeps to its order, and an action begins when what it needs is there.
class MachineRun {
 public:
  MachineRun(const ScheduleSettings& settings, int stages, int micro_batches, ActionTimes times = {})
      : placement_(placement_of(settings, stages)), times_(times) {
    for (int machine = 0; machine < placement_.machines; ++machine)
      machines_.push_back({.order = machine_order(settings, machine, stages, micro_batches)});
  }

  // False when no machine can go on although one has actions left.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Machine& machine : machines_) {
        while (advance(machine)) moved = true;
      }
    }
    return std::ranges::all_of(machines_, [](const Machine& each) { return each.next == each.order.size(); });
  }

  int end() const { return std::ranges::max(machines_, {}, &Machine::now).now; }
  // Of the machine that waits longest between its first action and its last one.
  int longest_wait() const { return std::ranges::max(machines_, {}, &Machine::waited).waited; }

 private:
  struct Machine {
    std::vector<StageAction> order;
    std::size_t next = 0;
    int now = 0;
    int waited = 0;
  };

  // When all is there that the action needs; nothing: never, as things are.
  std::optional<int> ready(const StageAction& action) const {
    const auto [stage, kind, micro_batch] = action;
    std::vector<StageAction> needed;
    if (kind == ActionKind::kForward && stage > 0) needed.push_back({stage - 1, kind, micro_batch});
    if (kind == ActionKind::kBackwardInputs) {
      needed.push_back({stage, ActionKind::kForward, micro_batch});
      if (stage + 1 < placement_.stages()) needed.push_back({stage + 1, kind, micro_batch});
    }
    if (kind == ActionKind::kBackwardWeights)
      needed.push_back({stage, ActionKind::kBackwardInputs, micro_batch});
    int at = 0;
    for (const auto& [other, of, number] : needed) {
      const auto found = ends_.find({other, of, number});
      if (found == ends_.end()) return std::nullopt;
      at = std::max(at, found->second);
    }
    return at;
  }

  bool advance(Machine& machine) {
    if (machine.next == machine.order.size()) return false;
    const StageAction& action = machine.order[machine.next];
    const std::optional<int> at = ready(action);
    if (!at) return false;
    const int begin = std::max(machine.now, *at);
    if (machine.next > 0) machine.waited += begin - machine.now;
    machine.now = begin + (action.kind == ActionKind::kForward          ? times_.forward
                           : action.kind == ActionKind::kBackwardInputs ? times_.inputs
                                                                        : times_.weights);
    ends_[{action.stage, action.kind, action.micro_batch}] = machine.now;
    ++machine.next;
    return true;
  }

  const StagePlacement placement_;
  const ActionTimes times_;
  std::vector<Machine> machines_;
  std::map<std::tuple<int, ActionKind, int>, int> ends_;
};

// As arXiv 2104.04473 has it: only 1/v of a micro-batch's time on a machine, forward and backward, passes for
// each machine until the last has work. Numbers of micro-batches that are no multiple of the machines take no
// longer than the next one that is.
TEST(MachineOrder, InterleavedStepsHaveThePapersLength) {
  const auto length = [](int machines, int chunks, int micro_batches, ActionTimes times) {
    MachineRun run(interleaved_of(chunks), machines * chunks, micro_batches, times);
    EXPECT_TRUE(run.run());
    return run.end();
  };
  for (int machines = 2; machines <= 6; ++machines) {
    for (int chunks = 2; chunks <= 4; ++chunks) {
      for (int micro_batches = machines; micro_batches <= 13; micro_batches += machines) {
        const int even = length(machines, chunks, micro_batches, {.weights = 0});
        EXPECT_EQ(even, 2 * chunks * micro_batches + 2 * (machines - 1));
        const int longer = length(machines, chunks, micro_batches, {.inputs = 2, .weights = 0});
        EXPECT_EQ(longer, 3 * chunks * micro_batches + 3 * (machines - 1));
        EXPECT_LE(length(machines, chunks, micro_batches, {}), longer);
        for (int less = 1; less < machines; ++less)
          EXPECT_LE(length(machines, chunks, micro_batches - less, {.weights = 0}), even);
      }
    }
  }
}

// The last machine gets its first work after machines - 1 actions, and needs 6 for each micro-batch: no order
// is shorter. With fewer micro-batches than fill the pipeline the first one's way decides.
TEST(MachineOrder, ZbvStepsHaveNoBubble) {
  for (int machines = 2; machines <= 8; ++machines) {
    for (int micro_batches = 1; micro_batches <= 20; ++micro_batches) {
      MachineRun run(zbv(), 2 * machines, micro_batches);
      ASSERT_TRUE(run.run());
      const int busy = 6 * micro_batches + machines - 1;
      const int passing = 4 * (micro_batches + machines) - 2;
      EXPECT_EQ(run.end(), std::max(busy, passing)) << machines << " " << micro_batches;
      if (micro_batches >= 2 * machines - 1) {
        EXPECT_EQ(run.longest_wait(), 0) << machines << " " << micro_batches;
      }
    }
  }
}

TEST(MachineOrder, NeverDeadlocks) {
  for (int machines = 2; machines <= 8; ++machines) {
    for (int micro_batches = 1; micro_batches <= 20; ++micro_batches) {
      for (int chunks = 2; chunks <= 4; ++chunks)
        EXPECT_TRUE(MachineRun(interleaved_of(chunks), machines * chunks, micro_batches).run())
            << machines << " " << chunks << " " << micro_batches;
      EXPECT_TRUE(MachineRun(zbv(), 2 * machines, micro_batches).run()) << machines << " " << micro_batches;
    }
  }
}

TEST(MachineOrder, APlanChoosesAmongAFew) {
  using testing::ElementsAre;
  EXPECT_THAT(possible_in_flight(zbv(), 4, 9), ElementsAre(ElementsAre(4, 3, 2, 1), ElementsAre(6, 4, 3, 1),
                                                           ElementsAre(8, 5, 4, 1), ElementsAre(9, 6, 5, 1)));
  EXPECT_THAT(possible_in_flight({.name = "zbv", .in_flight = 7}, 4, 9),
              ElementsAre(ElementsAre(4, 3, 2, 1), ElementsAre(6, 4, 3, 1)));
  EXPECT_THAT(possible_in_flight(zbv(), 4, 3), ElementsAre(ElementsAre(3, 3, 2, 1)));
  EXPECT_THAT(possible_in_flight(interleaved_of(), 1, 3), ElementsAre(ElementsAre(1)));
  const auto many = possible_in_flight(interleaved_of(), 8, 1000);
  EXPECT_LT(many.size(), 40U);
  EXPECT_EQ(many.back().front(), 1000);
}

struct OrderCase {
  ScheduleSettings settings;
  int machines = 1;
  int micro_batches = 1;

  // Machines of the row whose order they have, and the places between two of them.
  int hop() const {
    const int hops = settings.name == "zbv" ? machines - 1 : machines;
    int hop = 1;
    while (machines > 1 && !settings.planned.empty() &&
           2 * (machines + (hop - 1) * hops) < settings.planned[0])
      ++hop;
    return hop;
  }
  int row() const { return machines + (hop() - 1) * (settings.name == "zbv" ? machines - 1 : machines); }

  StagePlacement placement() const { return placement_on(settings, machines); }
  int stages() const { return placement().stages(); }
};

OrderCase any_order() {
  OrderCase made{.settings = zbv()};
  if (*rc::gen::arbitrary<bool>()) made.settings = interleaved_of(*rc::gen::inRange(2, kMostChunks + 1));
  made.machines = *rc::gen::inRange(1, 13);
  made.micro_batches = *rc::gen::inRange(1, 50);
  if (*rc::gen::inRange(0, 3) == 0) made.settings.planned = {*rc::gen::inRange(1, 100)};
  return made;
}

RC_GTEST_PROP(PlacementProperty, EveryStageHasItsPlace, ()) {
  const OrderCase of = any_order();
  const StagePlacement placement = of.placement();
  RC_ASSERT(placement == placement_of(of.settings, placement.stages()));
  for (int stage = 0; stage < placement.stages(); ++stage) {
    const int machine = placement.machine_of(stage);
    RC_ASSERT(0 <= machine && machine < placement.machines);
    RC_ASSERT(placement.stage_of(machine, placement.chunk_of(stage)) == stage);
  }
}

RC_GTEST_PROP(MachineOrderProperty, EachActionOnceInOrderAndWithinTheMemory, ()) {
  const OrderCase of = any_order();
  const StagePlacement placement = of.placement();
  for (int machine = 0; machine < placement.machines; ++machine) {
    std::map<std::pair<int, ActionKind>, int> counts;  // by stage
    int kept = 0;
    int most = 0;
    for (const auto& [stage, kind, micro_batch] :
         machine_order(of.settings, machine, of.stages(), of.micro_batches)) {
      RC_ASSERT(placement.machine_of(stage) == machine);
      RC_ASSERT((micro_batch == counts[{stage, kind}]++));
      if (kind == ActionKind::kForward) most = std::max(most, ++kept);
      if (kind == ActionKind::kBackwardWeights) --kept;
    }
    RC_ASSERT(std::ssize(counts) == 3 * placement.chunks);
    for (const auto& [of_stage, count] : counts) RC_ASSERT(count == of.micro_batches);
    const int all = placement.chunks * of.micro_batches;
    const int ahead = (placement.chunks - 1) * of.row() + 2 * (of.row() - 1 - of.hop() * machine);
    RC_ASSERT(most <= std::min(all, placement.turns_back ? 2 * of.row() : ahead + 1));
  }
}

// A plan has the numbers of all stages, and they say the same as the first one alone.
RC_GTEST_PROP(MachineOrderProperty, NumbersThatWerePlannedStayAsTheyAre, ()) {
  const OrderCase of = any_order();
  ScheduleSettings all = of.settings;
  all.planned.clear();
  for (int stage = 0; stage < of.stages(); ++stage)
    all.planned.push_back(in_flight(of.settings, stage, of.stages(), of.micro_batches));
  if (!of.settings.planned.empty() && of.settings.planned[0] > of.micro_batches)
    all.planned[0] = of.settings.planned[0];
  for (int stage = 0; stage < of.stages(); ++stage) {
    RC_ASSERT(in_flight(all, stage, of.stages(), of.micro_batches) ==
              in_flight(of.settings, stage, of.stages(), of.micro_batches));
  }
  for (int machine = 0; machine < of.placement().machines; ++machine) {
    RC_ASSERT(machine_order(all, machine, of.stages(), of.micro_batches) ==
              machine_order(of.settings, machine, of.stages(), of.micro_batches));
  }
}

RC_GTEST_PROP(MachineOrderProperty, NoDeadlock, ()) {
  const OrderCase of = any_order();
  RC_ASSERT(MachineRun(of.settings, of.stages(), of.micro_batches).run());
}

RC_GTEST_PROP(MachineOrderProperty, AScheduleIsItsStagesPart, ()) {
  const OrderCase of = any_order();
  const int stage = *rc::gen::inRange(0, of.stages());
  constexpr int kBatches = 3;
  std::vector<Action> expected;
  for (int batch = 0; batch < kBatches; ++batch) {
    for (const auto& [own, kind, micro_batch] :
         machine_order(of.settings, of.placement().machine_of(stage), of.stages(), of.micro_batches)) {
      if (own == stage) expected.push_back({kind, batch, micro_batch});
    }
    expected.push_back({ActionKind::kUpdate, batch, of.micro_batches - 1});
  }
  RC_ASSERT(actions(Schedule(of.settings, stage, of.stages(), kBatches, of.micro_batches)) == expected);
}

RC_GTEST_PROP(MachineOrderProperty, NumbersAreThoseOfTheSchedule, ()) {
  const OrderCase of = any_order();
  const int stage = *rc::gen::inRange(0, of.stages());
  std::map<ActionKind, int> done;
  int most_in_flight = 0;
  int most_kept = 0;
  std::optional<Action> before;
  bool delays = false;
  for (const Action& action : actions(Schedule(of.settings, stage, of.stages(), 1, of.micro_batches))) {
    if (action.kind == ActionKind::kBackwardWeights)
      delays |= *before != Action{ActionKind::kBackwardInputs, 0, action.micro_batch};
    ++done[action.kind];
    const int forwards = done[ActionKind::kForward];
    most_in_flight = std::max(most_in_flight, forwards - done[ActionKind::kBackwardInputs]);
    most_kept = std::max(most_kept, forwards - done[ActionKind::kBackwardWeights]);
    before = action;
  }
  RC_ASSERT(in_flight(of.settings, stage, of.stages(), of.micro_batches) == most_in_flight);
  RC_ASSERT(slots(of.settings, stage, of.stages(), of.micro_batches) == most_kept);
  RC_ASSERT(delays_weights(of.settings, stage, of.stages(), of.micro_batches) == delays);
}

// A run's last batch, which may be smaller, finds the memory that it needs.
RC_GTEST_PROP(MachineOrderProperty, FewerMicroBatchesNeedNoMoreMemory, ()) {
  const OrderCase of = any_order();
  const int stage = *rc::gen::inRange(0, of.stages());
  int before = 0;
  for (int micro_batches = 1; micro_batches <= of.micro_batches; ++micro_batches) {
    const int own = slots(of.settings, stage, of.stages(), micro_batches);
    RC_ASSERT(own >= before);
    before = own;
  }
}

// What planners go by (clusterize/costs/stage_memory.cpp): the first stage keeps most, and no stage that much
// less than the one before.
RC_GTEST_PROP(MachineOrderProperty, NumbersFallSlowlyFromStageToStage, ()) {
  OrderCase of = any_order();
  of.settings.planned.clear();
  const bool is_zbv = of.settings.name == "zbv";
  int before = of.micro_batches;
  for (int stage = 0; stage < of.stages(); ++stage) {
    const int own = slots(of.settings, stage, of.stages(), of.micro_batches);
    RC_ASSERT(own == in_flight(of.settings, stage, of.stages(), of.micro_batches));
    RC_ASSERT(own <= before);
    RC_ASSERT((stage == 0 || before <= own + own / 2 + 2));
    RC_ASSERT((!is_zbv || own == std::min(of.micro_batches, of.stages() - stage)));
    before = own;
  }
}

}  // namespace
}  // namespace rookery
