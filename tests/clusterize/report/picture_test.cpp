// What pictures of plans and steps show; and that those in docs/ are of today.
#include <gmock/gmock.h>

#include <regex>
#include <set>

#include "clusterize/report/pictures/plan_picture.hpp"
#include "clusterize/report/pictures/schedule_picture.hpp"
#include "clusterize/report/pictures/svg.hpp"
#include "clusterize/task/make_task.hpp"
#include "models/base/files/files.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "tests/support/repository.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Pictures {
  std::string plan, step;
};

Pictures pictures_of(const TrainingTask& task, const NodePool& pool, const SearchOptions& options) {
  const Planned planned = make_plan(task, pool, options);
  const Bottleneck bottleneck = find_bottleneck(task, pool, planned);
  return {plan_picture(pool, planned, bottleneck), schedule_picture(task, pool, planned, bottleneck)};
}

Pictures pictures_of(const Json& nodes, const SearchOptions& options = {}) {
  return pictures_of(cnn_task(), pool_of(nodes), options);
}

// All texts, one a line, with "0" in place of every number; those that are nothing but a number are left out.
std::string texts_of(const std::string& svg) {
  static const std::regex text("<text[^>]*>([^<]*)</text>");
  static const std::regex number("[0-9]+([.][0-9]+)?(e[+-]?[0-9]+)?");
  std::string all;
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), text); it != std::sregex_iterator(); ++it) {
    const std::string line = std::regex_replace((*it)[1].str(), number, "0");
    if (line != "0" && line != "0 ms") all += line + "\n";
  }
  return all;
}

TEST(Pictures, ShowEveryNode) {
  for (const int nodes : {1, 3, 7}) {
    const Pictures made = pictures_of(equal_nodes(nodes));
    for (int i = 0; i < nodes; ++i) {
      EXPECT_THAT(made.plan, HasSubstr(fmt::format(">node_{}</text>", i)));
      EXPECT_THAT(made.step, HasSubstr(fmt::format(">node_{}</text>", i)));
    }
    for (const std::string& svg : {made.plan, made.step}) {
      EXPECT_THAT(svg, Not(HasSubstr("nan")));
      EXPECT_THAT(svg, Not(HasSubstr("inf")));
    }
    EXPECT_THAT(made.plan, HasSubstr(fmt::format(" on {} node{} in ", nodes, nodes == 1 ? "" : "s")));
    EXPECT_THAT(made.plan, HasSubstr("Bottleneck: "));
    EXPECT_THAT(made.step, HasSubstr("bubble"));
    EXPECT_EQ(made.plan.find("ring 0: ") != std::string::npos, nodes == 7);
    EXPECT_EQ(made.step.find(">averaging<") != std::string::npos, nodes == 7);
  }
}

// The texts in red.
std::set<std::string> red_texts(const std::string& svg) {
  const std::regex text(fmt::format("<text[^>]*fill=\"{}\"[^>]*>([^<]*)</text>", svg_color::kRed));
  std::set<std::string> all;
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), text); it != std::sregex_iterator(); ++it)
    all.insert((*it)[1].str());
  return all;
}

TEST(Pictures, AgreeOnTheBottleneck) {
  Json near = equal_nodes(2);
  for (Json& node : near) node["benchmarks"]["bandwidth"] = 100'000;
  for (const Json& nodes : {equal_nodes(1), near, equal_nodes(3), equal_nodes(6)}) {
    const TrainingTask task = cnn_task();
    const NodePool pool = pool_of(nodes);
    const Planned planned = make_plan(task, pool, {});
    const Bottleneck worst = find_bottleneck(task, pool, planned);
    const std::set<std::string> plan = red_texts(plan_picture(pool, planned, worst));
    const std::string step = schedule_picture(task, pool, planned, worst);
    const std::string line = "Bottleneck: " + worst.text;
    EXPECT_EQ(red_texts(step).count(line), 1U) << line;
    EXPECT_THAT(*plan.lower_bound("Bottleneck"), testing::StartsWith(line.substr(0, 40)));
    const bool is_node = worst.kind == Bottleneck::Kind::kNode || worst.kind == Bottleneck::Kind::kUpdate;
    EXPECT_EQ(plan.contains("bottleneck"), is_node);
    EXPECT_EQ(red_texts(step).contains("bottleneck"), is_node);
    const std::string name = planned.plan.clusters[worst.cluster].stages[worst.stage].node;
    EXPECT_EQ(red_texts(step).contains(name), is_node);
  }
}

// A machine has a row for each of its stages, and is the bottleneck in all of them.
TEST(Pictures, OfMachinesWithSeveralStagesShowEachStage) {
  TrainingSettings settings;
  settings.micro_batches = 4;
  Json near = equal_nodes(3);
  for (Json& node : near) node["benchmarks"] = {{"ram", 8}, {"bandwidth", 100'000}, {"gflops", 0.5}};
  for (const char* schedule : {"interleaved", "zbv"}) {
    settings.schedule.name = schedule;
    const TrainingTask task = cnn_task(settings);
    const Planned planned = make_plan(task, pool_of(near), {});
    const Bottleneck worst = find_bottleneck(task, planned.pool, planned);
    ASSERT_EQ(worst.kind, Bottleneck::Kind::kNode) << worst.text;
    const std::string plan = plan_picture(planned.pool, planned, worst);
    const std::string step = schedule_picture(task, planned.pool, planned, worst);
    EXPECT_THAT(plan, HasSubstr(" on 3 nodes with 6 stages in 1 cluster: ")) << schedule;
    const std::string name = planned.plan.clusters[0].stages[worst.stage].node;
    for (const std::string& node : {name, name + ".1"}) {
      EXPECT_THAT(plan, HasSubstr(">" + node + "<"));
      EXPECT_EQ(red_texts(step).count(node), 1U) << node;
    }
  }
}

TEST(Pictures, OfLargePlansAreSummed) {
  const Pictures made = pictures_of(equal_nodes(60));  // 20 clusters of three
  EXPECT_THAT(made.plan, HasSubstr("20 clusters; bars: their steps beside the slowest"));
  EXPECT_THAT(made.plan, HasSubstr("node_0 → node_1 → node_2"));
  EXPECT_THAT(made.step, HasSubstr("The slowest 16 of 20 clusters"));
}

TEST(Pictures, NamesFromTheUserCannotBreakThem) {
  Json pool = equal_nodes(3);
  pool["1"]["IP"] = "a-host-with-a-very-long-name.somewhere.example:8080";
  const Pictures made = pictures_of(pool);
  EXPECT_THAT(made.plan, HasSubstr("<title>a-host-with-a-very-long-name.somewhere.example:8080</title>"));
  EXPECT_THAT(made.plan, HasSubstr("…</text>"));
}

// Their numbers follow the throughput model, which is refined more often than they are drawn.
TEST(Docs, PicturesAreThoseOfTheExample) {
  const std::filesystem::path docs = kRepository / "docs";
  const NodePool pool = NodePool::read(docs / "example" / "node_configs.json");
  const TrainingSettings settings = read_settings(docs / "example" / "train.json");
  TrainingTask task{.graph = zoo_model(settings.model), .settings = settings, .data = {4000, 1000}};
  add_loss(task.graph, settings.loss);
  task.kernels = choose_kernels(task.graph, micro_batch_sizes(settings, settings.batch_size).front());
  const Pictures made = pictures_of(task, pool, usual_search(pool, settings.seed));
  constexpr const char* kHelp =
      "draw them anew in a copy of docs/example: clusterize --svg docs/plan.svg --gantt docs/step.svg";
  EXPECT_EQ(texts_of(read_file(docs / "plan.svg", 1 << 20)), texts_of(made.plan)) << kHelp;
  EXPECT_EQ(texts_of(read_file(docs / "step.svg", 1 << 20)), texts_of(made.step)) << kHelp;
}

}  // namespace
}  // namespace rookery
