#include "clusterize/planner/choices/choose_transport.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "clusterize/planner/make_metadata.hpp"
#include "clusterize/report/report.hpp"
#include "clusterize/simulation/simulation.hpp"
#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

TrainingTask task_with(const TransportSettings& transport, int micro_batches = 4) {
  TrainingSettings settings;
  settings.micro_batches = micro_batches;
  settings.transport = transport;
  return cnn_task(settings);
}

const TransportSettings kAuto{.activations = "auto", .gradients = "auto"};

// Three nodes in one cluster, whose connections have so many Mbit/s each.
Json pool_with(const std::vector<double>& bandwidths) {
  Json pool = Json::object();
  for (std::size_t i = 0; i < bandwidths.size(); ++i)
    pool[std::to_string(i)] = node_json(8080 + static_cast<int>(i), 8, bandwidths[i]);
  return pool;
}

const SearchOptions kOneCluster{.min_nodes = 3, .clusters = 1};

double step_ms(const Planned& planned) {
  return planned.plan.clusters.at(0).simulated_step_ms;
}

std::vector<TransportSettings> transports(const Planned& planned) {
  std::vector<TransportSettings> all;
  for (const PlannedLink& link : planned.plan.clusters.at(0).links) all.push_back(link.transport);
  return all;
}

TEST(ChooseTransport, FastLinksStayAsTheyAre) {
  const TrainingTask task = task_with(kAuto);
  const Planned chosen = plan(pool_with({1e6, 1e6, 1e6}), task, kOneCluster);
  for (const TransportSettings& transport : transports(chosen)) EXPECT_EQ(transport, TransportSettings());
  EXPECT_THAT(describe_plan(task, chosen), HasSubstr("Chosen: no link holds the plan back"));
  for (const LinkTransport& link : make_metadata(task, chosen, 0, 1).transport)
    EXPECT_EQ(link.transport, TransportSettings());
}

TEST(ChooseTransport, SlowLinksGetFewerBitsAndBothEndsAreTold) {
  const TrainingTask task = task_with(kAuto);
  const Planned chosen = plan(pool_with({1, 1, 1}), task, kOneCluster);
  EXPECT_THAT(transports(chosen), testing::Contains(testing::Ne(TransportSettings())));
  EXPECT_THAT(describe_plan(task, chosen), HasSubstr("Chosen: between node_"));
  const std::vector<PlannedLink>& links = chosen.plan.clusters[0].links;
  for (int stage = 0; stage < 3; ++stage) {
    const NodeMetadata metadata = make_metadata(task, chosen, 0, stage);
    ASSERT_EQ(metadata.transport.size(), links.size());
    for (std::size_t i = 0; i < links.size(); ++i)
      EXPECT_EQ(metadata.transport[i], (LinkTransport{links[i].from, links[i].to, links[i].transport}));
  }
  EXPECT_LT(step_ms(chosen), step_ms(plan(pool_with({1, 1, 1}), task_with({}), kOneCluster)));
}

TEST(ChooseTransport, OnlyTheLinkThatHoldsThePlanBackGetsFewerBits) {
  const Planned chosen = plan(pool_with({1e4, 1e4, 0.5}), task_with(kAuto, 8), kOneCluster);
  int slow = 0;
  for (const PlannedLink& link : chosen.plan.clusters[0].links) {
    if (link.bandwidth_mbps > 1) {
      EXPECT_EQ(link.transport, TransportSettings()) << link.from << " to " << link.to;
    } else if (link.gradient_bytes > 0) {
      EXPECT_NE(link.transport, TransportSettings()) << link.from << " to " << link.to;
      ++slow;
    }
  }
  EXPECT_GT(slow, 0);
}

// Without fewer bits the third machine would only be waited for.
TEST(ChooseTransport, MachinesThatLinksWouldKeepApartTrainTogether) {
  Json pool = pool_with({0.2, 0.2, 0.2});
  for (auto& [id, node] : pool.items()) node["benchmarks"]["gflops"] = 0.02;
  const SearchOptions one_to_three{.objective = Objective::kThroughput, .min_nodes = 1, .clusters = 1};
  const Planned without = plan(pool, task_with({}), one_to_three);
  EXPECT_EQ(without.members[0].size(), 2U);
  const Planned chosen = plan(pool, task_with(kAuto), one_to_three);
  EXPECT_EQ(chosen.members[0].size(), 3U);
  EXPECT_GT(chosen.plan.simulated_samples_per_second, 1.2 * without.plan.simulated_samples_per_second);
}

TEST(ChooseTransport, WhatIsWrittenIsNotChosen) {
  const TrainingTask task = task_with({.activations = "bf16", .gradients = "auto"});
  for (const double bandwidth : {1.0, 1e6}) {
    const Planned chosen = plan(pool_with({bandwidth, bandwidth, bandwidth}), task, kOneCluster);
    for (const TransportSettings& transport : transports(chosen)) EXPECT_EQ(transport.activations, "bf16");
  }
}

RC_GTEST_PROP(ChooseTransport, IsNeverSlowerAndAlwaysTheSame, ()) {
  const int micro_batches = *rc::gen::element(1, 2, 8);
  const auto bandwidths =
      *rc::gen::container<std::vector<double>>(3, rc::gen::element(0.3, 1.0, 3.0, 10.0, 100.0, 1e4));
  const Json pool = pool_with(bandwidths);
  const TrainingTask task = task_with(kAuto, micro_batches);
  const Planned chosen = plan(pool, task, kOneCluster);
  const Planned none = plan(pool, task_with({}, micro_batches), kOneCluster);
  RC_ASSERT(chosen.members == none.members ||
            chosen.plan.simulated_samples_per_second >
                none.plan.simulated_samples_per_second * (1 + kLeastTransportGain));
  RC_ASSERT(step_ms(chosen) <= step_ms(none) * (1 + 1e-12));
  RC_ASSERT(transports(plan(pool, task, kOneCluster)) == transports(chosen));
  const std::vector<TransportSettings> links = transports(chosen);
  const bool is_any =
      std::ranges::any_of(links, [](const auto& each) { return each != TransportSettings(); });
  RC_ASSERT(!is_any || step_ms(chosen) < step_ms(none));
}

}  // namespace
}  // namespace rookery
