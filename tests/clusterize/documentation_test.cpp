// node_data/README.md says what the programs do.
#include <gmock/gmock.h>

#include <set>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/planner/make_metadata.hpp"
#include "clusterize/report/explanation.hpp"
#include "clusterize/report/simulation_report.hpp"
#include "models/base/files/files.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "tests/support/repository.hpp"
#include "trainer/data/formats.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

std::string page() {
  return read_file(kNodeData / "README.md", 1 << 20);
}

// The first ```json block behind a heading.
Json example_of(const std::string& heading) {
  const std::string text = page();
  const std::string fence = "```json\n";
  const std::size_t begin = text.find(fence, text.find("\n## " + heading + "\n")) + fence.size();
  return Json::parse(text.substr(begin, text.find("```", begin) - begin));
}

TEST(NodeDataReadme, ItsPoolCanBeRead) {
  const NodePool pool = pool_of(example_of("node_configs.json"));
  EXPECT_EQ(pool.nodes().size(), 2U);
  EXPECT_EQ(pool.link(0, 1), (LinkSpeed{3, 10}));
}

TEST(NodeDataReadme, ItsSettingsAreThoseOfTheMainJob) {
  const TrainingSettings main_job = read_settings(kNodeData / "train.json");
  EXPECT_EQ(settings_from_json(example_of("train.json"), "README.md"), main_job);
  TrainingSettings expected;
  expected.epochs = 100;
  EXPECT_EQ(main_job, expected);
}

TEST(NodeDataReadme, HasTheTableOfSettings) {
  EXPECT_THAT(page(), HasSubstr(settings_reference()));
}

TEST(NodeDataReadme, HasTheTableOfDataSets) {
  EXPECT_THAT(page(), HasSubstr(data_reference()));
}

TEST(NodeDataReadme, NamesEveryKeyOfANodesFile) {
  const ScratchFolder folder;
  const TrainingTask task = cnn_task();
  NodeMetadata metadata = make_metadata(task, make_plan(task, pool_of(equal_nodes(3)), {}), 0, 1);
  metadata.token = std::string(32, '0');
  write_metadata(folder.path(), metadata);
  const Json document = read_json(metadata_path(folder.path(), metadata.node));
  for (const auto& [key, value] : document.items()) EXPECT_THAT(page(), HasSubstr(fmt::format("`{}`", key)));
}

// Of all objects, however deep.
void collect_keys(const Json& document, std::set<std::string>& keys) {
  for (const auto& [key, value] : document.items()) {
    if (document.is_object()) keys.insert(key);
    if (value.is_structured()) collect_keys(value, keys);
  }
}

TEST(NodeDataReadme, NamesEveryKeyOfThePlanAndOfWhatIsToldAboutIt) {
  const TrainingTask task = cnn_task();
  const NodePool pool = pool_of(equal_nodes(7));
  Planned planned = make_plan(task, pool, {});
  planned.plan.left_out.push_back({"node_9", "excluded"});
  planned.plan.schedule_choice = {.chosen = {}, .others = {{}}};
  const SimulationOptions options{.failures_per_hour = 1};
  std::set<std::string> keys;
  collect_keys(Json::parse(to_json(planned.plan).dump()), keys);
  EXPECT_GE(keys.size(), 40U);
  collect_keys(Json::parse(to_json(simulate(task, pool, planned, options), options).dump()), keys);
  const Json document = equal_nodes(7);
  collect_keys(
      Json::parse(to_json(explain(document, {}, {}, planned, find_bottleneck(task, pool, planned))).dump()),
      keys);
  for (const char* key : {"straggler_share", "straggler_factor", "failures_per_hour", "restart_seconds"})
    keys.erase(key);  // the options
  for (const std::string& key : keys) EXPECT_THAT(page(), HasSubstr(fmt::format("`{}`", key)));
}

TEST(NodeDataReadme, TheWalkthroughPoolIsThreeNodes) {
  const NodePool pool = NodePool::read(kNodeData / "node_configs.json");
  ASSERT_EQ(pool.nodes().size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(pool.nodes()[i].address, fmt::format("0.0.0.0:{}", 8080 + i));
    EXPECT_EQ(pool.nodes()[i].ram_gb, 8);
    EXPECT_EQ(pool.nodes()[i].bandwidth_mbps, 10);
  }
}

}  // namespace
}  // namespace rookery
