#include "clusterize/report/page/run_page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(CurvePicture, ShowsTheExtremesOfWhatItHasNoRoomFor) {
  Curve noisy{.name = "loss", .points = {}};
  for (int step = 1; step <= 100'000; ++step) noisy.points.emplace_back(step, step == 5000 ? 900 : step % 2);
  const std::string picture = curve_picture("Loss", std::vector{noisy});
  EXPECT_LT(picture.size(), 40'000U);
  // The highest value alone touches the top of the plot, where y is 56.
  EXPECT_EQ(count(picture, " 56 L"), 1U);
  EXPECT_THAT(picture, HasSubstr(">800</text>"));
}

TEST(CurvePicture, OfAFewPointsOrNone) {
  EXPECT_THAT(curve_picture("Loss", {}), HasSubstr("no values yet"));
  const std::string one = curve_picture("Loss", std::vector{Curve{"loss", {{7, 0.5}}}});
  EXPECT_THAT(one, Not(HasSubstr("nan")));
  EXPECT_THAT(one, Not(HasSubstr("inf")));
  EXPECT_EQ(count(one, "<rect"), 2U);  // the ground and the point
  const std::string level = curve_picture("Rate", std::vector{Curve{"rate", {{1, 0}, {2, 0}, {3, 0}}}});
  EXPECT_THAT(level, HasSubstr("<path"));
  EXPECT_THAT(level, Not(HasSubstr("nan")));
}

RunFiles run_of_two() {
  const auto stage = [](const char* node, const char* role) {
    return Json{{"node", node}, {"role", role}, {"parameters", 10}, {"threads", 2}};
  };
  RunFiles files{
      .plan = {{"plan_id", "abc"},
               {"model", "net<script>"},
               {"schedule", "1f1b"},
               {"batch_size", 32},
               {"predicted_samples_per_second", 100.0},
               {"simulated_samples_per_second", 110.0},
               {"clusters", {{{"id", 0}, {"stages", {stage("node_0", "root"), stage("node_1", "leaf")}}}}}},
      .settings = {{"data", "digits"}, {"loss", {{"name", "mse"}}}},
      .plan_picture = "<svg id=\"plan\"></svg>",
      .step_picture = {}};
  const Json done{{"event", "done"},
                  {"role", "root"},
                  {"text", "3 steps"},
                  {"times", {{"step_ms", {{"predicted", 2.0}, {"measured", 3.0}}}}}};
  files.ends = {{"node_0", done}, {"node_1", done}};
  files.curves = {{"loss/train", {"loss/train", {{1, 2.5}, {2, 1.25}}}},
                  {"accuracy/validation", {"accuracy/validation", {{1, 97.5}, {2, 96}}}}};
  return files;
}

TEST(RunPage, FiguresOfNodesAreCalledByTheirNode) {
  RunFiles files = run_of_two();
  files.curves["gradient_norm"] = {"gradient_norm", {{1, 2}, {2, 1}}};
  files.curves["node_1/waiting"] = {"node_1/waiting", {{1, 0.5}, {2, 0.25}}};
  const std::string page = run_page(files);
  EXPECT_THAT(page, HasSubstr("Norm of the gradients"));
  EXPECT_THAT(page, HasSubstr("Share of the time waiting for other stages"));
  EXPECT_THAT(page, HasSubstr(">node_1</text>"));
  EXPECT_THAT(page, Not(HasSubstr("node_1/waiting")));
}

TEST(RunPage, TellsWhatCameOfTheRun) {
  const std::string page = run_page(run_of_two());
  EXPECT_THAT(page, HasSubstr("trained to its end on all nodes"));
  EXPECT_THAT(page, HasSubstr(" · 2 nodes in 1 cluster · "));
  EXPECT_THAT(page, HasSubstr("1.25 at step 2; 2.5 at the first"));
  EXPECT_THAT(page, HasSubstr("96.00 %; at best 97.50 %, at step 1"));
  EXPECT_EQ(count(page, "2 → 3 (+50 %)"), 2U);
  EXPECT_THAT(page, HasSubstr("<svg id=\"plan\"></svg>"));
  EXPECT_THAT(page, HasSubstr("<tr><th>loss</th><td>{&quot;name&quot;:&quot;mse&quot;}</td></tr>"));
  EXPECT_THAT(page, Not(HasSubstr("Rounds of averaging")));
}

TEST(RunPage, TextsAreNoMarkup) {
  RunFiles files = run_of_two();
  files.settings["data"] = "<img src=http://example.org>";
  const std::string page = run_page(files);
  EXPECT_THAT(page, Not(HasSubstr("<script>")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
}

TEST(RunPage, NamesWhoFailedAndWhy) {
  RunFiles files = run_of_two();
  files.ends["node_1"] = {
      {"event", "failed"}, {"role", "leaf"}, {"text", "the first line\nnode_0 <was lost>"}};
  const std::string page = run_page(files);
  EXPECT_THAT(page, HasSubstr("1 of 2 nodes failed"));
  EXPECT_THAT(page, HasSubstr("the first line\nnode_0 &lt;was lost&gt;\n</pre>"));
  EXPECT_THAT(page, Not(HasSubstr("trained to its end")));
}

// Two machines, of which the second has failed, in both of its stages.
TEST(RunPage, CountsMachinesWhereTheseHaveSeveralStages) {
  RunFiles files = run_of_two();
  Json& stages = files.plan["clusters"][0]["stages"];
  for (const char* node : {"node_0.1", "node_1.1"}) {
    stages.push_back(stages[0]);
    stages.back()["node"] = node;
  }
  files.ends["node_0.1"] = files.ends["node_0"];
  EXPECT_THAT(run_page(files), HasSubstr("1 of 2 nodes have ended"));
  files.ends["node_1.1"] = files.ends["node_0"];
  EXPECT_THAT(run_page(files), HasSubstr(" · 2 nodes with 4 stages in 1 cluster · "));
  EXPECT_THAT(run_page(files), HasSubstr("trained to its end on all nodes"));
  for (const char* node : {"node_1", "node_1.1"})
    files.ends[node] = {{"event", "failed"}, {"role", "stem"}, {"text", "lost"}};
  EXPECT_THAT(run_page(files), HasSubstr("1 of 2 nodes failed"));
}

TEST(RunPage, OfARunThatHasNotBegunSaysWhatIsMissing) {
  RunFiles files = run_of_two();
  files.ends.clear();
  files.curves.clear();
  files.missing = {"runs/net/metrics.jsonl, which the Leaf writes"};
  const std::string page = run_page(files);
  EXPECT_THAT(page, HasSubstr("0 of 2 nodes have ended"));
  EXPECT_THAT(page, HasSubstr("<li class=\"faint\">runs/net/metrics.jsonl, which the Leaf writes</li>"));
}

}  // namespace
}  // namespace rookery
