#include "node/provider_events.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace rookery {
namespace {

using testing::HasSubstr;
using testing::Not;

ProviderEvent progress_event() {
  ProviderEvent event{.kind = ProviderEvent::Kind::kProgress, .node = "node_2", .role = "leaf"};
  event.progress = {.epoch = 11,
                    .epochs = 100,
                    .step = 204,
                    .steps = 1700,
                    .samples_per_second = 21000.0,
                    .seconds_left = 3.2};
  event.progress.loss = 0.0123;
  event.progress.accuracy = 97.5;
  event.waiting = 0.352;
  event.waits_for = "node_1";
  return event;
}

TEST(ProviderEvents, ProgressComesBackAsItWas) {
  const auto event = parse_json_line(to_json_line(progress_event()));
  ASSERT_TRUE(event);
  EXPECT_EQ(event->node, "node_2");
  EXPECT_EQ(event->role, "leaf");
  EXPECT_EQ(event->progress.epoch, 11);
  EXPECT_EQ(event->progress.step, 204);
  EXPECT_EQ(event->progress.steps, 1700);
  EXPECT_EQ(event->progress.loss, 0.0123);
  EXPECT_EQ(event->progress.accuracy, 97.5);
  EXPECT_EQ(event->waiting, 0.352);
  EXPECT_EQ(event->waits_for, "node_1");
}

// Of three stages, on nodes 7, 6 and 5.
NodeMetadata stage_of_three(int stage) {
  NodeMetadata metadata{.stage = stage, .stages = 3};
  for (int each = 0; each < 3; ++each)
    metadata.members.push_back({.node = "node_" + std::to_string(7 - each), .stage = each});
  return metadata;
}

TEST(ProviderEvents, AStageWaitsForItsNeighbourOnTheSideThatItWaitsForMost) {
  const NodeMetadata stem = stage_of_three(1);
  EXPECT_EQ(waits_for(stem, {.seconds = 1, .waiting = 0.5, .waiting_for_later = 0.1}), "node_7");
  EXPECT_EQ(waits_for(stem, {.seconds = 1, .waiting = 0.5, .waiting_for_later = 0.4}), "node_5");
  EXPECT_EQ(waits_for(stem, {.seconds = 1, .waiting = 0.009}), "") << "hardly ever";
  EXPECT_EQ(waits_for({.stage = 0, .stages = 1}, {.seconds = 1, .waiting = 0.5}), "") << "there is nobody";
}

TEST(ProviderEvents, ThereIsNobodyBeforeTheRootAndNobodyBehindTheLeaf) {
  EXPECT_EQ(waits_for(stage_of_three(0), {.seconds = 1, .waiting = 0.5, .waiting_for_later = 0.1}), "node_6");
  EXPECT_EQ(waits_for(stage_of_three(2), {.seconds = 1, .waiting = 0.5, .waiting_for_later = 0.4}), "node_6");
  EXPECT_EQ(waits_for(stage_of_three(2), {}), "node_6") << "before any time has passed";
}

TEST(ProviderEvents, WhatIsNotKnownIsLeftOut) {
  ProviderEvent event = progress_event();
  event.progress.loss = std::numeric_limits<double>::infinity();
  event.progress.accuracy.reset();
  const auto parsed = parse_json_line(to_json_line(event));
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->progress.loss);
  EXPECT_FALSE(parsed->progress.accuracy);
}

TEST(ProviderEvents, TextComesBackAsItWas) {
  const auto event = parse_json_line(
      to_json_line({.kind = ProviderEvent::Kind::kWaiting, .node = "node_0", .text = "a\n\"b\""}));
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, ProviderEvent::Kind::kWaiting);
  EXPECT_EQ(event->text, "a\n\"b\"");
}

TEST(ProviderEvents, EveryKindComesBackAsItWas) {
  using Kind = ProviderEvent::Kind;
  for (const Kind kind : {Kind::kWaiting, Kind::kTraining, Kind::kProgress, Kind::kDone, Kind::kFailed}) {
    const auto event = parse_json_line(to_json_line({.kind = kind, .node = "node_0", .role = "root"}));
    ASSERT_TRUE(event);
    EXPECT_EQ(event->kind, kind);
  }
}

TEST(ProviderEvents, WhereThereIsLittleRoomWhatMattersLeastIsLeftOut) {
  const auto at = [](int columns) {
    int dropped = 0;
    return fitted({to_parts(progress_event())}, columns, dropped).front();
  };
  EXPECT_EQ(at(79), "node_2  epoch 12/100  step 204/1700  loss 0.01230  accuracy 97.50%  ETA 3 s");
  EXPECT_EQ(at(49), "node_2  step 204/1700  loss 0.01230  ETA 3 s");
  EXPECT_EQ(at(39), "node_2  step 204/1700  loss 0.01230");
}

// Plans predict of a whole batch's micro-batches.
TEST(ProviderEvents, ASmallerShareIsPredictedToTakeLess) {
  NodeMetadata metadata{.shares = {.cluster = 1, .samples = {64, 16}},
                        .prediction = {.forward_ms = 2, .backward_ms = 4, .update_ms = 0.5}};
  metadata.settings.batch_size = 64;
  metadata.settings.micro_batches = 4;
  const auto times = compared_times(metadata, {.steps = 9, .compared_steps = 7});
  EXPECT_EQ(times.at(0).predicted, 0.5);
  EXPECT_EQ(times.at(1).predicted, 1);
  EXPECT_EQ(times.at(2).predicted, 0.5);
}

TEST(ProviderEvents, TheEndComparesWhatWasPredictedWithWhatWasMeasured) {
  NodeMetadata metadata{.prediction = {.forward_ms = 2, .backward_ms = 4, .update_ms = 0.5},
                        .predicted_step_ms = 8};
  NodeReport report{.steps = 9, .forward_ms = 1, .backward_ms = 5, .update_ms = 0.5, .step_ms = 10};
  EXPECT_TRUE(compared_times(metadata, report).empty()) << "no step was compared";
  EXPECT_THAT(report_text(metadata, report), HasSubstr("too few steps"));
  report.compared_steps = 7;
  const ProviderEvent done{.kind = ProviderEvent::Kind::kDone,
                           .node = "node_0",
                           .text = report_text(metadata, report),
                           .times = compared_times(metadata, report)};
  EXPECT_THAT(done.text, HasSubstr("8.000 ms     10.000 ms    +25 %"));
  EXPECT_THAT(done.text, HasSubstr("over 7 steps"));
  EXPECT_THAT(done.text, Not(HasSubstr("virtual machine")));
  const std::string line = to_json_line(done);
  EXPECT_THAT(line, HasSubstr(R"("forward_ms":{"predicted":2.0,"measured":1.0})"));
  EXPECT_THAT(line, HasSubstr(R"("step_ms":{"predicted":8.0,"measured":10.0})"));
  EXPECT_TRUE(parse_json_line(line));
}

TEST(ProviderEvents, TheEndOfSeveralClustersTellsOfTheirRounds) {
  const NodeMetadata metadata{
      .predicted_step_ms = 8, .predicted_averaging_ms = 0.75, .predicted_round_ms = 3};
  const NodeReport report{.steps = 40,
                          .seconds = 0.4,
                          .compared_steps = 30,
                          .step_ms = 10,
                          .rounds = 10,
                          .round_ms = 4,
                          .exposed_seconds = 0.04,
                          .ring_bytes = {{0, 2'500'000}, {3, 1'000'000}}};
  const std::string text = report_text(metadata, report);
  EXPECT_THAT(
      text,
      HasSubstr(
          "10 rounds, waiting for which took 10.0 % of the time; sent 2.5 MB in ring 0, 1.0 MB in ring 3\n"));
  EXPECT_THAT(text, HasSubstr("step           8.750 ms     10.000 ms"));  // with what it waits for rounds
  EXPECT_THAT(text, HasSubstr("round          3.000 ms      4.000 ms    +33 %"));
  const ProviderEvent done{.kind = ProviderEvent::Kind::kDone,
                           .node = "node_0",
                           .rounds = report.rounds,
                           .exposed_seconds = report.exposed_seconds,
                           .ring_bytes = report.ring_bytes};
  EXPECT_THAT(to_json_line(done),
              HasSubstr(R"("rounds":10,"exposed_seconds":0.04,"ring_bytes":{"0":2500000,"3":1000000})"));
}

TEST(ProviderEvents, TheEndSaysWhenTheHostKeptProcessorsAway) {
  const NodeReport report{.steps = 9, .stolen = 0.125};
  const ProviderEvent done{.kind = ProviderEvent::Kind::kDone,
                           .node = "node_0",
                           .text = report_text({}, report),
                           .stolen = report.stolen};
  EXPECT_THAT(done.text, HasSubstr("gave 12 % of the processor time wanted here to others"));
  EXPECT_THAT(to_json_line(done), HasSubstr("\"stolen\":0.125"));
}

TEST(ProviderEvents, OtherLinesAreNoEvents) {
  for (const char* line :
       {"", "{", "[]", "null", "{\"event\": 3}", "{\"event\": \"dance\", \"node\": \"a\", \"role\": \"b\"}",
        "{\"event\": \"progress\", \"node\": \"a\", \"role\": \"b\", \"epoch\": \"x\"}"}) {
    EXPECT_FALSE(parse_json_line(line)) << line;
  }
  const std::string event = to_json_line(progress_event());
  ASSERT_TRUE(parse_json_line(event));
  for (const char* number : {"0.5", "1e30"}) {
    std::string line = event;
    const std::string step = "\"step\":204";
    ASSERT_NE(line.find(step), std::string::npos) << line;
    line.replace(line.find(step), step.size(), std::string("\"step\":") + number);
    EXPECT_FALSE(parse_json_line(line)) << line;
  }
}

TEST(ProviderEvents, ALineForPeopleHasWhatTheyWantToKnow) {
  const std::string line = to_line(progress_event());
  for (const char* part : {"node_2", "leaf", "epoch 12/100", "step 204/1700", "0.0123", "97.50%",
                           "21000 samples/s", "ETA 3 s"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
}

}  // namespace
}  // namespace rookery
