// Schedules by which a machine has several stages of its cluster, its *chunks*: which ones, and in which
// order it runs their actions. One stage at a time computes on a machine.
//   interleaved  chunk c of machine m is stage c · machines + m, so that a micro-batch goes round the
//                machines as often as there are chunks, and a pipeline fills and drains in as small a part
//                of the time (arXiv 2104.04473). Micro-batches go round in groups of as many as there are
//                machines; where they do not come out even the last group is smaller. A machine runs as
//                many forwards ahead as there come before the first gradient, then alternates, W directly
//                after its B.
//   zbv          two chunks, stages m and 2 · machines − 1 − m: the last stage is on the first machine,
//                and gradients of weights fill what would be waiting (ZB-V of arXiv 2401.10241). A machine
//                keeps at most 2 · machines micro-batches of a chunk, as with 1f1b. Where F, B and W take
//                as long as each other, and there are 2 · machines − 1 micro-batches, it never waits
//                between its first action and its last one.
//
// Where messages are long on their way, a plan has more in flight (ScheduleSettings::planned): machines then
// keep the order of a longer row, of whose machines they are every second, third, ... and the others are
// imagined, so that a micro-batch has the time of their actions to come to the next one.
//
// A cluster of one machine has one stage, which runs 1f1b.
#pragma once

#include <vector>

#include "trainer/schedule/schedule.hpp"

namespace rookery {

// Where the stages of a cluster lie. Machines, chunks of a machine and stages count from 0.
struct StagePlacement {
  int machines = 1;
  int chunks = 1;           // on each
  bool turns_back = false;  // every second chunk, so that chunks meet on one machine
  bool operator==(const StagePlacement&) const = default;

  int stages() const { return machines * chunks; }
  int chunk_of(int stage) const { return stage / machines; }
  int machine_of(int stage) const {
    const int place = stage % machines;
    return turns_back && chunk_of(stage) % 2 == 1 ? machines - 1 - place : place;
  }
  int stage_of(int machine, int chunk) const {
    return chunk * machines + (turns_back && chunk % 2 == 1 ? machines - 1 - machine : machine);
  }
};

// Of a cluster of so many machines. ConfigError for an unknown schedule, as from all functions below.
StagePlacement placement_on(const ScheduleSettings& settings, int machines);
// Of a cluster of so many stages. BugError where no cluster has as many.
StagePlacement placement_of(const ScheduleSettings& settings, int stages);
// The most stages of a cluster that has no more than so many, from 1.
int stages_within(const ScheduleSettings& settings, int most);

struct StageAction {
  int stage = 0;
  ActionKind kind = ActionKind::kForward;  // never kUpdate: every stage makes its own when it can
  int micro_batch = 0;
  bool operator==(const StageAction&) const = default;
};

// All that a machine computes for a batch, but for updates; only of schedules with chunks (BugError). The
// actions of each stage, by themselves, are those of its Schedule. Where each machine keeps to its order none
// waits for ever, as long as nobody waits for what is sent to be taken.
std::vector<StageAction> machine_order(const ScheduleSettings& settings, int machine, int stages,
                                       int micro_batches);
// What a plan may choose (ScheduleSettings::planned), each with more in flight on the first stage than the
// one before: from what is there without a plan to all micro-batches, some of all.
std::vector<std::vector<int>> possible_in_flight(ScheduleSettings settings, int stages, int micro_batches);

}  // namespace rookery
