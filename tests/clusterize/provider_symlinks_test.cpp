#include "clusterize/provider_symlinks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "models/base/files/files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// build/bin with programs, a folder to work in, and a $PATH.
class ProviderLinksTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(programs_);
    fs::create_directories(working_);
    for (const char* program : {"provider", "launch"}) write_file(programs_ / program, "#!/bin/sh\n");
    set_path("/usr/bin");
  }
  void TearDown() override { ::setenv("PATH", path_.c_str(), 1); }

  static void set_path(const std::string& path) { ::setenv("PATH", path.c_str(), 1); }
  void make_build() const { write_file(programs_.parent_path() / "CMakeCache.txt", ""); }
  ProviderSymlinks make(const std::vector<std::string>& ids) const {
    return make_provider_symlinks(programs_, working_, ids);
  }

  const std::string path_ = std::getenv("PATH");
  const ScratchFolder folder_;
  const fs::path programs_ = folder_.path() / "work" / "build" / "bin";
  const fs::path working_ = folder_.path() / "work";
};

TEST_F(ProviderLinksTest, LieInAUsersBuild) {
  make_build();
  fs::create_symlink("/old/provider", programs_ / "provider_1");
  const ProviderSymlinks made = make({"0", "1"});
  EXPECT_EQ(made.problem, "");
  EXPECT_EQ(fs::read_symlink(programs_ / "provider_0"), "provider");
  EXPECT_EQ(fs::read_symlink(programs_ / "provider_1"), "provider");
  EXPECT_THAT(made.symlinks, ElementsAre("build/bin/provider_0", "build/bin/provider_1"));
  EXPECT_EQ(made.launch, "build/bin/launch");
}

TEST_F(ProviderLinksTest, LieWhereOneWorksWhenProgramsAreInstalled) {
  const ProviderSymlinks made = make({"0"});
  EXPECT_EQ(made.problem, "");
  EXPECT_FALSE(fs::exists(programs_ / "provider_0"));
  EXPECT_TRUE(fs::equivalent(working_ / "provider_0", programs_ / "provider"));
  EXPECT_THAT(made.symlinks, ElementsAre("./provider_0"));
  fs::create_symlink("/old/provider", working_ / "provider_1");
  EXPECT_EQ(make({"0", "1"}).problem, "") << "links to a provider are made anew";
  EXPECT_TRUE(fs::equivalent(working_ / "provider_1", programs_ / "provider"));
}

TEST_F(ProviderLinksTest, AreSaidAsTheyAreTyped) {
  make_build();
  set_path("/usr/bin:" + programs_.string());
  EXPECT_EQ(how_to_start(make({"0", "1", "2"})),
            "Start each node's provider with provider_0, provider_1, provider_2 (provider --name node_N is "
            "the same), or all "
            "of them "
            "on this machine with launch.");
  EXPECT_THAT(how_to_start(make({"0", "1", "2", "7"})), HasSubstr("provider_0, provider_1 … provider_7 ("));
  set_path("/usr/bin");
  EXPECT_THAT(how_to_start(make({"0"})), HasSubstr("all of them on this machine with build/bin/launch."));
  const fs::path other = folder_.path() / "other";
  fs::create_directories(other);
  write_file(other / "provider", "another one");
  set_path(other.string() + ":" + programs_.string());
  EXPECT_EQ(make({"0"}).provider, "build/bin/provider") << "the name alone would start another one";
}

TEST(MachineIds, AreThoseOfNodesThatAreCalledAsTheirMachine) {
  ClusterPlan plan;
  plan.clusters.resize(2);
  for (const char* node : {"node_7", "node_0", "node_0.1", "node_7.1"})
    plan.clusters[0].stages.push_back({.node = node});
  plan.clusters[1].stages.push_back({.node = "node_12"});
  EXPECT_THAT(machine_ids(plan), ElementsAre("7", "0", "12"));
}

TEST_F(ProviderLinksTest, SpareOtherFiles) {
  write_file(working_ / "provider_2", "mine");
  EXPECT_THAT(make({"2"}).problem, HasSubstr("provider_2 is there and is no link"));
  EXPECT_EQ(read_file(working_ / "provider_2", 100), "mine");
  fs::create_symlink("/elsewhere/mine", working_ / "provider_3");
  const ProviderSymlinks made = make({"3"});
  EXPECT_THAT(made.problem, HasSubstr("provider_3 is there and leads to /elsewhere/mine"));
  EXPECT_EQ(
      how_to_start(made),
      "Start each node's provider with build/bin/provider --name node_N, or all of them on this machine with "
      "build/bin/launch.");
  EXPECT_THAT(make_provider_symlinks(programs_, working_ / "nowhere", {"0"}).problem,
              HasSubstr("cannot make"));
}

}  // namespace
}  // namespace rookery
