#include "clusterize/inner_cut.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace rookery {
namespace {

struct Instance {
  ModelCosts costs;
  std::vector<CutMachine> machines;
};

// Small whole numbers, so that ties are common and sums are exact. Memory is the number of
// parameters, times the micro-batches in flight unless activations are recomputed.
Instance random_instance() {
  Instance instance;
  const int segments = *rc::gen::inRange(1, 9);
  for (int i = 0; i < segments; ++i) {
    instance.costs.segments.push_back({.begin = i,
                                       .ops = 0,
                                       .forward_flops = static_cast<double>(*rc::gen::inRange(0, 6)),
                                       .backward_flops = static_cast<double>(*rc::gen::inRange(0, 6)),
                                       .parameters = *rc::gen::inRange(0, 4),
                                       .activation_bytes = static_cast<double>(*rc::gen::inRange(0, 12)),
                                       .gradient_bytes = static_cast<double>(*rc::gen::inRange(0, 12))});
  }
  instance.costs.micro_batches = *rc::gen::inRange(1, 4);
  instance.costs.memory = [all = instance.costs.segments](int first, int last, int slots) {
    std::int64_t bytes = 0;
    for (int i = first; i < last; ++i) bytes += all[static_cast<std::size_t>(i)].parameters * slots;
    return bytes;
  };
  instance.costs.recomputed_memory = [memory = instance.costs.memory](int first, int last, int) {
    return memory(first, last, 1);
  };
  instance.costs.may_recompute = *rc::gen::arbitrary<bool>();
  instance.costs.must_recompute = instance.costs.may_recompute && *rc::gen::arbitrary<bool>();
  const int machines = *rc::gen::inRange(1, 5);
  for (int i = 0; i < machines; ++i) {
    instance.machines.push_back({.flops_per_second = static_cast<double>(*rc::gen::element(1, 2, 4)),
                                 .memory_bytes = static_cast<double>(*rc::gen::inRange(2, 20)),
                                 .next_bytes_per_second = static_cast<double>(*rc::gen::element(1, 2, 4))});
  }
  return instance;
}

// What inner_cut() promises of one cut, computed straight from the definition; nothing when a stage
// does not fit.
std::optional<InnerCut> judge(const Instance& instance, const std::vector<int>& begins) {
  InnerCut cut{.begins = begins};
  const auto stages = static_cast<int>(begins.size());
  for (int k = 0; k < stages; ++k) {
    const CutMachine& machine = instance.machines[static_cast<std::size_t>(k)];
    const int begin = begins[static_cast<std::size_t>(k)];
    const int end = k + 1 < stages ? begins[static_cast<std::size_t>(k) + 1] : instance.costs.count();
    double flops = 0;
    double forward_flops = 0;
    std::int64_t parameters = 0;
    for (int i = begin; i < end; ++i) {
      const Segment& segment = instance.costs.segments[static_cast<std::size_t>(i)];
      flops += segment.forward_flops + segment.backward_flops;
      forward_flops += segment.forward_flops;
      parameters += segment.parameters;
    }
    const int slots = std::min(instance.costs.micro_batches, stages - k);
    const bool fits = static_cast<double>(parameters * slots) <= machine.memory_bytes;
    const bool fits_recomputed = static_cast<double>(parameters) <= machine.memory_bytes;
    const bool recompute = instance.costs.must_recompute || (instance.costs.may_recompute && !fits);
    if (recompute ? !fits_recomputed : !fits) return std::nullopt;
    cut.recompute.push_back(recompute);
    if (recompute) flops += forward_flops;
    cut.empty_stages += parameters == 0 ? 1 : 0;
    cut.bottleneck = std::max(cut.bottleneck, flops / machine.flops_per_second);
    if (k + 1 == stages) continue;
    const Segment& next = instance.costs.segments[static_cast<std::size_t>(end)];
    const double transfer =
        std::max(next.activation_bytes, next.gradient_bytes) / machine.next_bytes_per_second;
    cut.bottleneck = std::max(cut.bottleneck, transfer);
    cut.transfer += transfer;
  }
  return cut;
}

bool better(const InnerCut& a, const InnerCut& b) {
  return std::tuple(a.empty_stages, a.bottleneck, a.transfer) <
         std::tuple(b.empty_stages, b.bottleneck, b.transfer);
}

std::optional<InnerCut> brute_force(const Instance& instance) {
  std::optional<InnerCut> best;
  const int count = instance.costs.count();
  for (unsigned chosen = 0; chosen < 1U << (count - 1); ++chosen) {
    std::vector<int> begins{0};
    for (int i = 1; i < count; ++i) {
      if ((chosen >> (i - 1) & 1U) != 0) begins.push_back(i);
    }
    if (begins.size() != instance.machines.size()) continue;
    const std::optional<InnerCut> cut = judge(instance, begins);
    if (cut && (!best || better(*cut, *best))) best = cut;
  }
  return best;
}

RC_GTEST_PROP(InnerCut, IsAsGoodAsTheBestOfAllCuts, ()) {
  const Instance instance = random_instance();
  const std::optional<InnerCut> expected = brute_force(instance);
  const std::optional<InnerCut> found = inner_cut(instance.costs, instance.machines);
  RC_ASSERT(found.has_value() == expected.has_value());
  RC_TAG(found.has_value());
  if (!found) return;
  const std::optional<InnerCut> judged = judge(instance, found->begins);
  RC_ASSERT(judged.has_value());  // it fits
  RC_ASSERT(judged->empty_stages == found->empty_stages);
  RC_ASSERT(judged->bottleneck == found->bottleneck);
  RC_ASSERT(judged->transfer == found->transfer);
  RC_ASSERT(judged->recompute == found->recompute);
  RC_ASSERT(!better(*expected, *found) && !better(*found, *expected));
}

ModelCosts row_of(std::vector<Segment> segments) {
  return {.segments = std::move(segments), .memory = [](int, int, int) { return 0; }};
}

// Cutting before segment 1 balances the first two stages best (5 and 5 instead of 6 and 4), but the
// last stage takes 20 anyway, so that only the transfers count.
TEST(InnerCut, ABalanceThatTheBottleneckHidesIsWorthNothing) {
  const ModelCosts costs = row_of({{.forward_flops = 5, .parameters = 1},
                                   {.forward_flops = 1, .parameters = 1, .activation_bytes = 4},
                                   {.forward_flops = 4, .parameters = 1, .activation_bytes = 1},
                                   {.forward_flops = 20, .parameters = 1, .activation_bytes = 1}});
  const std::optional<InnerCut> cut =
      inner_cut(costs, {{.next_bytes_per_second = 1}, {.next_bytes_per_second = 1}, {}});
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->begins, (std::vector{0, 2, 3}));
  EXPECT_DOUBLE_EQ(cut->bottleneck, 20);
  EXPECT_DOUBLE_EQ(cut->transfer, 2);
}

TEST(InnerCut, AStageWithoutParametersIsTheLastResort) {
  const ModelCosts costs =
      row_of({{.forward_flops = 9, .parameters = 1}, {.forward_flops = 9}, {.parameters = 1}});
  EXPECT_EQ(inner_cut(costs, {{}, {}})->begins, (std::vector{0, 1}));
  EXPECT_EQ(inner_cut(costs, {{}, {}, {}})->empty_stages, 1);
}

TEST(InnerCut, MoreMachinesThanSegmentsHaveNoCut) {
  EXPECT_FALSE(inner_cut(row_of({{.parameters = 1}}), {{}, {}}));
}

TEST(InnerCut, EveryOpCostsSomething) {
  const ModelCosts costs = row_of({{.ops = 3}, {.ops = 4}});
  EXPECT_DOUBLE_EQ(forward_seconds(costs, 0, 2, 1e9), 7 * kSecondsPerOp);
  EXPECT_DOUBLE_EQ(backward_seconds(costs, 1, 2, 1e9), 4 * kSecondsPerOp);
}

}  // namespace
}  // namespace rookery
