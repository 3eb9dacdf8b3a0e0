#include "node/launch/launcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/machine/processors.hpp"
#include "models/base/process/stop_signals.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

// In the place of a provider: says what NAME.says has, in which its own folder's files tell what else it
// does.
constexpr const char* kProvider = R"sh(#!/bin/sh
folder=$(dirname "$0")
while [ "$1" != --name ]; do shift; done
own="$folder/$2"
echo "$@" > "$own.arguments"
trap 'exit 1' TERM
cat "$own.says"
touch "$own.said"
[ ! -e "$own.waits" ] || while [ ! -e "$folder/$(cat "$own.waits").said" ]; do sleep 0.01; done
[ ! -e "$own.stays" ] || while :; do sleep 0.01; done
[ ! -e "$own.dies" ] || kill -KILL $$
exit "$(cat "$own.code")"
)sh";

// Two machines, of which node_0 has the first and the last of three stages.
class LauncherTest : public testing::Test {
 protected:
  LauncherTest() {
    catch_stop_signals();
    write_file(path("provider"), kProvider);
    std::filesystem::permissions(path("provider"), std::filesystem::perms::owner_all);
    for (const char* machine : {"node_0", "node_1"}) {
      set(machine, "says", "");
      set(machine, "code", "0");
    }
    for (const char* name : {"node_0", "node_1", "node_0.1"}) {
      const auto stage = static_cast<int>(nodes_.size());
      nodes_.push_back({.node = name,
                        .address = fmt::format("127.0.0.1:{}", 8080 + stage),
                        .plan_id = "0123456789abcdef",
                        .stage = stage,
                        .stages = 3});
    }
  }

  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  void set(const std::string& machine, const std::string& what, const std::string& content) const {
    write_file(path(machine + "." + what), content);
  }
  static std::string event(const std::string& kind, const std::string& node, const std::string& text) {
    return fmt::format("{{\"event\": \"{}\", \"node\": \"{}\", \"role\": \"stem\", \"text\": \"{}\"}}\n",
                       kind, node, text);
  }

  // The exit code; the texts are in output_ and errors_.
  int launch() {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code =
        Launcher({.provider = path("provider"), .node_data = path(""), .output = path("")}, nodes_).run();
    output_ = testing::internal::GetCapturedStdout();
    errors_ = testing::internal::GetCapturedStderr();
    return code;
  }

  const ScratchFolder folder_;
  std::vector<NodeMetadata> nodes_;
  std::string output_, errors_;
};

TEST_F(LauncherTest, OneProviderTellsOfAllStagesOfItsMachine) {
  set("node_0", "says",
      event("training", "node_0", "first") + event("training", "node_0.1", "last") +
          event("done", "node_0.1", "200 steps") + event("done", "node_0", "100 steps"));
  set("node_1", "says",
      event("training", "node_1", "middle") + event("training", "node_0.1", "no stage of its machine") +
          event("done", "node_1", "300 steps"));
  EXPECT_EQ(launch(), 0);
  EXPECT_FALSE(std::filesystem::exists(path("node_0.1.arguments"))) << "it has no process of its own";
  for (const char* line : {"node_0  stem       first\n", "node_0.1  stem       last\n"})
    EXPECT_THAT(output_, HasSubstr(line));
  EXPECT_THAT(output_, HasSubstr("node_1 | {\"event\": \"training\", \"node\": \"node_0.1\""));
  EXPECT_THAT(output_, HasSubstr("node_0: 100 steps\nnode_1: 300 steps\nnode_0.1: 200 steps\n"));
  EXPECT_EQ(errors_, "");
}

TEST_F(LauncherTest, StagesOfAMachineShareItsThreads) {
  const int processors = usable_processors();
  nodes_.erase(nodes_.begin() + 1);
  for (NodeMetadata& node : nodes_) node.threads = processors;
  EXPECT_EQ(launch(), 0);
  EXPECT_THAT(read_file(path("node_0.arguments"), 1000),
              HasSubstr(fmt::format("--threads {}\n", processors)));
}

TEST_F(LauncherTest, AStageThatFailsIsNamed) {
  set("node_0", "says",
      event("failed", "node_0.1", "no space left") + event("failed", "node_0", "gone with it"));
  set("node_0", "code", "3");
  set("node_0", "waits", "node_1");
  set("node_1", "says", event("failed", "node_1", "node_0 (127.0.0.1:8080) failed: no space left"));
  set("node_1", "stays", "");
  EXPECT_EQ(launch(), 3);
  for (const char* row :
       {"node_0  root       ended with exit code 3\n", "node_0.1  leaf       ended with exit code 3\n"})
    EXPECT_THAT(output_, HasSubstr(row));
  EXPECT_THAT(errors_, HasSubstr("launch: node_0.1 failed first (exit code 3): no space left\n"));
}

TEST_F(LauncherTest, AMachineThatIsKilledIsToldOfByWhoLostAnyOfItsStages) {
  set("node_0", "dies", "");
  set("node_0", "waits", "node_1");
  set("node_1", "says", event("failed", "node_1", "node_0.1 (127.0.0.1:8082) is lost: it has closed"));
  set("node_1", "stays", "");
  EXPECT_EQ(launch(), 137);
  EXPECT_THAT(errors_, HasSubstr("launch: node_0.1 failed first (ended by SIGKILL): node_1 says: node_0.1"));
}

TEST_F(LauncherTest, AStageWithoutItsMachineIsRefused) {
  nodes_.erase(nodes_.begin());
  std::string problem;
  try {
    launch();
  } catch (const ConfigError& error) {
    problem = error.what();
  }
  testing::internal::GetCapturedStdout();
  testing::internal::GetCapturedStderr();
  EXPECT_THAT(problem, HasSubstr("there is node_0.1, but not node_0, whose provider trains it"));
  EXPECT_FALSE(std::filesystem::exists(path("node_1.said")));
}

}  // namespace
}  // namespace rookery
