#include "models/base/machine/processors.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>

#include "models/base/files/files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

int of_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  return CPU_COUNT(&set);
}

// A system whose control group of this process, or the one above, has a file.
class Processors : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const auto file = root_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    write_file(file, text);
  }
  int usable() const { return usable_processors(root_.path()); }

 private:
  ScratchFolder root_;
};

TEST_F(Processors, AreThoseOfTheAffinity) {
  EXPECT_EQ(usable(), of_affinity());
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable(), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

TEST_F(Processors, AreNoMoreThanAQuotaAmountsTo) {
  if (of_affinity() < 2) GTEST_SKIP() << "one processor";
  write("proc/self/cgroup", "0::/user/inner\n");
  write("sys/fs/cgroup/user/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(usable(), of_affinity());
  write("sys/fs/cgroup/user/cpu.max", "100000 100000\n");
  EXPECT_EQ(usable(), 1) << "of the group above";
  write("sys/fs/cgroup/user/cpu.max", "110000 100000\n");
  EXPECT_EQ(usable(), 2) << "rounded up";
  write("sys/fs/cgroup/user/cpu.max", "nonsense\n");
  EXPECT_EQ(usable(), of_affinity());
}

TEST_F(Processors, AreNoMoreThanAQuotaOfVersionOneAmountsTo) {
  if (of_affinity() < 2) GTEST_SKIP() << "one processor";
  write("proc/self/cgroup", "4:cpu,cpuacct:/docker\n3:memory:/docker\n");
  write("sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/docker/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable(), of_affinity());
  write("sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(usable(), 1);
}

TEST(ShareOfProcessors, IsAllThatIsWantedWhereThereIsEnough) {
  EXPECT_EQ(share_of_processors(2, 4, 4), 2);
  EXPECT_EQ(share_of_processors(3, 3, 8), 3);
}

TEST(ShareOfProcessors, IsAPartWhereThereIsNot) {
  EXPECT_EQ(share_of_processors(4, 8, 4), 2);
  EXPECT_EQ(share_of_processors(3, 5, 4), 2);
  EXPECT_EQ(share_of_processors(2, 5, 4), 1);
  EXPECT_EQ(share_of_processors(1, 100, 4), 1) << "there is no less";
}

}  // namespace
}  // namespace rookery
