#include "clusterize/planner/choices/fewer_stages.hpp"

#include <gmock/gmock.h>

#include <string>

#include "tests/clusterize/plan_support.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Of three slow machines in a row.
std::optional<std::string> advice_for(const std::string& schedule, double latency_ms) {
  Json nodes = Json::object();
  for (int i = 0; i < 3; ++i) {
    nodes[std::to_string(i)] = node_json(8080 + i, 8, 1e5);
    nodes[std::to_string(i)]["benchmarks"]["gflops"] = 0.5;
  }
  nodes["network"] = {{"default", {{"latency_ms", latency_ms}, {"bandwidth_mbps", 1e5}}}};
  TrainingSettings settings;
  settings.schedule.name = schedule;
  settings.micro_batches = 16;
  const TrainingTask task = cnn_task(settings);
  SearchOptions options = for_throughput();
  options.clusters = 1;
  options.min_nodes = 3;
  return fewer_stages(task, pool_of(nodes), options, plan(nodes, task, options));
}

TEST(FewerStages, AreToldOfWhereLinksAreSlow) {
  for (const auto& [schedule, twin] : {std::pair("interleaved", "1f1b"), std::pair("zbv", "zb")}) {
    EXPECT_EQ(advice_for(schedule, 0.01), std::nullopt) << schedule;
    const std::string advice = advice_for(schedule, 100).value_or("none");
    EXPECT_THAT(advice, AllOf(HasSubstr(schedule), HasSubstr(twin)));
  }
  EXPECT_EQ(advice_for("1f1b", 100), std::nullopt);
}

}  // namespace
}  // namespace rookery
