#include "clusterize/costs/stage_partition.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>

#include "tests/clusterize/function_memory.hpp"

namespace rookery {
namespace {

struct PartitionCase {
  ModelCosts costs;
  std::vector<CutMachine> machines;
  std::vector<CutWay> ways;  // ways[k]: from machine k - 1; the first is not used
};

std::vector<StagePartition> partitions(const PartitionCase& instance) {
  if (std::ssize(instance.machines) > instance.costs.count()) return {};
  const PartitionSums sums(instance.costs);
  StagePartitioner cutter(sums, static_cast<int>(instance.machines.size()));
  for (std::size_t k = 0; k < instance.machines.size(); ++k)
    cutter.push(instance.machines[k], instance.ways[k]);
  return cutter.cuts();
}

// Small whole numbers, so that ties are common and sums are exact. Memory is the number of
// parameters, times the micro-batches in flight unless activations are recomputed.
PartitionCase random_instance() {
  PartitionCase instance;
  const int segments = *rc::gen::inRange(1, 9);
  for (int i = 0; i < segments; ++i) {
    instance.costs.segments.push_back(
        {.begin = i,
         .work = {.forward_flops = static_cast<double>(*rc::gen::inRange(0, 6)),
                  .backward_flops = static_cast<double>(*rc::gen::inRange(0, 6)),
                  .update_flops = static_cast<double>(*rc::gen::inRange(0, 60))},
         .parameters = *rc::gen::inRange(0, 4),
         .parameter_bytes = *rc::gen::inRange(0, 9),
         .activation_bytes = static_cast<double>(*rc::gen::inRange(0, 12)),
         .gradient_bytes = static_cast<double>(*rc::gen::inRange(0, 12))});
  }
  if (*rc::gen::arbitrary<bool>()) {  // threads of which work differs
    for (const int threads : {1, 3}) {
      for (int i = 0; i < segments; ++i) {
        instance.costs.threads[threads].work.push_back(
            {.forward_flops = static_cast<double>(*rc::gen::inRange(0, 6)),
             .backward_flops = static_cast<double>(*rc::gen::inRange(0, 6)),
             .update_flops = static_cast<double>(*rc::gen::inRange(0, 60))});
      }
    }
  }
  instance.costs.micro_batches = *rc::gen::inRange(1, 4);
  if (*rc::gen::arbitrary<bool>()) {
    instance.costs.schedule.name = "async";
    if (*rc::gen::arbitrary<bool>()) instance.costs.schedule.max_staleness = *rc::gen::inRange(0, 4);
  }
  if (*rc::gen::arbitrary<bool>()) instance.costs.schedule.in_flight = *rc::gen::inRange(1, 7);
  instance.costs.memory = memory_by([all = instance.costs.segments](const StageRange& range) {
    std::int64_t bytes = 0;
    for (int i = range.first; i < range.last; ++i)
      bytes += all[i].parameters * (range.recompute ? 1 : range.slots);
    return bytes;
  });
  instance.costs.may_recompute = *rc::gen::arbitrary<bool>();
  instance.costs.must_recompute = instance.costs.may_recompute && *rc::gen::arbitrary<bool>();
  const int machines = *rc::gen::inRange(1, 5);
  for (int i = 0; i < machines; ++i) {
    instance.machines.push_back({.flops_per_second = static_cast<double>(*rc::gen::element(1, 2, 4)),
                                 .memory_bytes = static_cast<double>(*rc::gen::inRange(2, 20)),
                                 .bytes_per_second = static_cast<double>(*rc::gen::element(1, 2, 4)),
                                 .seconds_per_byte = *rc::gen::element(0.0, 0.0, 0.25),
                                 .threads = *rc::gen::inRange(1, 5)});
    instance.ways.push_back({.latency = static_cast<double>(*rc::gen::inRange(0, 3)),
                             .bytes_per_second = static_cast<double>(*rc::gen::element(1, 2, 4))});
  }
  return instance;
}

// What the header of the throughput model says of one cut, computed straight from it; nothing when a stage
// does not fit.
std::optional<StagePartition> judge(const PartitionCase& instance, const std::vector<int>& begins) {
  StagePartition cut{.begins = begins};
  const auto stages = begins.size();
  double round_trip = 0;
  double period = 0;
  double update = 0;
  std::vector<double> behind;  // by stage: from its forward to its part of the update, turning at stage k
  const ScheduleSettings& schedule = instance.costs.schedule;
  const bool is_async = schedule.name == "async";
  const auto ahead = [&](std::size_t stage) {  // at least
    const auto after = static_cast<int>(stages - 1 - stage);
    if (after == 0 || !schedule.in_flight) return after;
    const int others = static_cast<int>(stages) - 1;
    return ((*schedule.in_flight - 1) * after + others - 1) / others;
  };
  const auto least_in_flight = [&](std::size_t stage) {
    const int least = ahead(stage);
    const int micro_batches = instance.costs.micro_batches;
    if (!is_async) return 1 + std::min(least, micro_batches - 1);
    return 1 + std::min(least, schedule.max_staleness ? *schedule.max_staleness * micro_batches : least);
  };
  const auto most_in_flight = [&](std::size_t stage) {
    if (schedule.in_flight || stage + 1 == stages) return least_in_flight(stage);
    if (!is_async) return instance.costs.micro_batches;
    return schedule.max_staleness ? 1 + *schedule.max_staleness * instance.costs.micro_batches
                                  : least_in_flight(stage);
  };
  const auto segment = [&](int index) { return instance.costs.segments[index]; };
  for (std::size_t k = 0; k < stages; ++k) {
    const CutMachine& machine = instance.machines[k];
    const bool last = k + 1 == stages;
    const int end = last ? instance.costs.count() : begins[k + 1];
    Segment sum;
    const auto measured = instance.costs.threads.find(machine.threads < 3 ? 1 : 3);
    for (int i = begins[k]; i < end; ++i) {
      const SegmentWork work =
          measured == instance.costs.threads.end() ? segment(i).work : measured->second.work[i];
      sum.work += work;
      sum.parameters += segment(i).parameters;
      sum.parameter_bytes += segment(i).parameter_bytes;
    }
    const int slots = least_in_flight(k);
    const bool fits = static_cast<double>(sum.parameters * slots) <= machine.memory_bytes;
    const bool fits_recomputed = static_cast<double>(sum.parameters) <= machine.memory_bytes;
    const bool recompute = instance.costs.must_recompute || (instance.costs.may_recompute && !fits);
    if (recompute ? !fits_recomputed : !fits) return std::nullopt;
    cut.recompute.push_back(recompute);
    const Segment in = k > 0 ? segment(begins[k]) : Segment();
    const Segment out = last ? Segment() : segment(end);
    const double moved = in.activation_bytes + in.gradient_bytes + out.activation_bytes + out.gradient_bytes;
    const double work =
        (sum.work.forward_flops * (recompute ? 2 : 1) + sum.work.backward_flops) / machine.flops_per_second +
        moved * machine.seconds_per_byte;
    cut.empty_stages += sum.parameters == 0 ? 1 : 0;
    cut.load_seconds =
        std::max(cut.load_seconds, static_cast<double>(sum.parameter_bytes) / machine.bytes_per_second);
    const double connection =
        std::max(in.activation_bytes + out.gradient_bytes, in.gradient_bytes + out.activation_bytes) /
        machine.bytes_per_second;
    period = std::max({period, work, connection});
    update = std::max(update, sum.work.update_flops / machine.flops_per_second);
    const CutWay& way = instance.ways[k];
    const double transfers =
        k == 0 ? 0 : 2 * way.latency + (in.activation_bytes + in.gradient_bytes) / way.bytes_per_second;
    for (double& seconds : behind) seconds += transfers + work;
    // In bytes moved for each of a parameter: 7 by Adam, one more by a prediction of weights.
    const double factor = is_async && slots > 1 ? 8.0 / 7 : 1;
    behind.push_back(work + factor * sum.work.update_flops / machine.flops_per_second /
                                instance.costs.micro_batches);
    for (std::size_t stage = 0; is_async && stage <= k; ++stage)
      period = std::max(period, behind[stage] / (most_in_flight(stage) - least_in_flight(k) + 1));
    round_trip += work + transfers;
    if (k == 0) continue;
    period = std::max(period, std::max(in.activation_bytes, in.gradient_bytes) / way.bytes_per_second);
  }
  if (is_async) {
    cut.step_seconds = instance.costs.micro_batches * period;
    return cut;
  }
  if (most_in_flight(0) < instance.costs.micro_batches)
    period = std::max(period, round_trip / most_in_flight(0));
  cut.step_seconds = round_trip + (instance.costs.micro_batches - 1) * period + update;
  return cut;
}

// All cuts that fit with the fewest empty stages.
std::vector<StagePartition> brute_force(const PartitionCase& instance) {
  std::vector<StagePartition> all;
  const int count = instance.costs.count();
  for (unsigned chosen = 0; chosen < 1U << (count - 1); ++chosen) {
    std::vector<int> begins{0};
    for (int i = 1; i < count; ++i) {
      if ((chosen >> (i - 1) & 1U) != 0) begins.push_back(i);
    }
    if (begins.size() != instance.machines.size()) continue;
    if (const std::optional<StagePartition> cut = judge(instance, begins)) all.push_back(*cut);
  }
  if (all.empty()) return all;
  const int least = std::ranges::min(all, {}, &StagePartition::empty_stages).empty_stages;
  std::erase_if(all, [&](const StagePartition& cut) { return cut.empty_stages > least; });
  return all;
}

// Halves and quarters: sums are exact.
RC_GTEST_PROP(StagePartition, NoCutBeatsThoseFound, ()) {
  const PartitionCase instance = random_instance();
  const std::vector<StagePartition> all = brute_force(instance);
  const std::vector<StagePartition> found = partitions(instance);
  RC_ASSERT(found.empty() == all.empty());
  RC_TAG(found.size());
  for (const StagePartition& cut : found) {
    const std::optional<StagePartition> judged = judge(instance, cut.begins);
    RC_ASSERT(judged.has_value());  // it fits
    RC_ASSERT(judged->empty_stages == cut.empty_stages);
    RC_ASSERT(std::abs(judged->step_seconds - cut.step_seconds) < 1e-9);
    RC_ASSERT(judged->load_seconds == cut.load_seconds);
    RC_ASSERT(judged->recompute == cut.recompute);
  }
  for (const StagePartition& cut : all) {
    const bool is_reached = std::ranges::any_of(found, [&](const StagePartition& other) {
      return other.empty_stages == cut.empty_stages && other.step_seconds <= cut.step_seconds + 1e-9 &&
             other.load_seconds <= cut.load_seconds;
    });
    RC_ASSERT(is_reached);
  }
  for (std::size_t i = 1; i < found.size(); ++i) {
    RC_ASSERT(found[i - 1].step_seconds <= found[i].step_seconds);
    RC_ASSERT(found[i - 1].load_seconds > found[i].load_seconds);
  }
}

// Whatever follows, the step of a longer row is no shorter than the bound of its front.
RC_GTEST_PROP(StagePartition, TheBoundOfAFrontHolds, ()) {
  const PartitionCase instance = random_instance();
  RC_PRE(std::ssize(instance.machines) <= instance.costs.count());
  const PartitionSums sums(instance.costs);
  StagePartitioner cutter(sums, static_cast<int>(instance.machines.size()));
  std::vector<double> bounds;
  for (std::size_t k = 0; k < instance.machines.size(); ++k) {
    cutter.push(instance.machines[k], instance.ways[k]);
    double fastest = 0;
    double together = 0;
    double waiting = 0;
    for (std::size_t rest = k + 1; rest < instance.machines.size(); ++rest) {
      fastest = std::max(fastest, instance.machines[rest].flops_per_second);
      together += instance.machines[rest].flops_per_second;
      waiting += 2 * instance.ways[rest].latency;
    }
    bounds.push_back(cutter.bound(fastest, together, waiting));
  }
  const std::vector<StagePartition> cuts = cutter.cuts();
  if (cuts.empty()) return;
  for (const double bound : bounds) RC_ASSERT(bound <= cuts.front().step_seconds + 1e-9);
}

PartitionCase row_of(std::vector<Segment> segments, std::size_t machines) {
  return {
      .costs = {.segments = std::move(segments), .memory = memory_by([](const StageRange&) { return 0; })},
      .machines = std::vector<CutMachine>(machines),
      .ways = std::vector<CutWay>(machines)};
}

// Machines alike take turns, so that only the transfers count; with more micro-batches they work at the
// same time, and the slowest counts.
TEST(StagePartition, BalancesOnlyWhereMachinesWorkAtTheSameTime) {
  PartitionCase instance = row_of({{.work = {.forward_flops = 5}, .parameters = 1},
                                   {.work = {.forward_flops = 5}, .parameters = 1, .activation_bytes = 4},
                                   {.work = {.forward_flops = 9}, .parameters = 1, .activation_bytes = 1}},
                                  2);
  instance.ways[1].bytes_per_second = 1;
  EXPECT_EQ(partitions(instance).front().begins, (std::vector{0, 2}));
  instance.costs.segments[2].work.forward_flops = 1;
  EXPECT_EQ(partitions(instance).front().begins, (std::vector{0, 2}));
  instance.costs.micro_batches = 100;
  EXPECT_EQ(partitions(instance).front().begins, (std::vector{0, 1}));
}

// The pieces of 8 and 1 bytes on one machine make the shorter step, on two the smaller load.
TEST(StagePartition, OffersLessLoadForALongerStep) {
  PartitionCase instance = row_of({{.parameters = 1, .parameter_bytes = 8},
                                   {.parameters = 1, .parameter_bytes = 1, .activation_bytes = 9},
                                   {.parameters = 1, .parameter_bytes = 6, .activation_bytes = 1}},
                                  2);
  instance.ways[1].bytes_per_second = 1;
  for (CutMachine& machine : instance.machines) machine.bytes_per_second = 1;
  const std::vector<StagePartition> cuts = partitions(instance);
  ASSERT_EQ(cuts.size(), 2U);
  EXPECT_EQ(cuts[0].begins, (std::vector{0, 2}));
  EXPECT_EQ(cuts[0].load_seconds, 9);
  EXPECT_EQ(cuts[1].begins, (std::vector{0, 1}));
  EXPECT_EQ(cuts[1].load_seconds, 8);
}

TEST(StagePartition, AStageWithoutParametersIsTheLastResort) {
  const std::vector<Segment> segments{
      {.work = {.forward_flops = 9}, .parameters = 1}, {.work = {.forward_flops = 9}}, {.parameters = 1}};
  EXPECT_EQ(partitions(row_of(segments, 2)).front().empty_stages, 0);
  EXPECT_EQ(partitions(row_of(segments, 3)).front().empty_stages, 1);
}

}  // namespace
}  // namespace rookery
