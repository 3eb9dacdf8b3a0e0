#include "models/base/process/process_memory.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "models/base/files/files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

TEST(ProcessMemory, IsWhatTheSystemSays) {
  const ScratchFolder root;
  std::filesystem::create_directories(root.path() / "proc/self");
  write_file(root.path() / "proc/self/status",
             "Name:\tprovider\nVmPeak:\t 900 kB\nVmHWM:\t      40 kB\nVmRSS:\t      30 kB\n"
             "RssAnon:\t      20 kB\nRssFile:\t       8 kB\nRssShmem:\t       2 kB\n");
  const ProcessMemory memory = process_memory(root.path());
  EXPECT_EQ(memory.peak, 40 * 1024);
  EXPECT_EQ(memory.resident, 30 * 1024);
  EXPECT_EQ(memory.anonymous, 20 * 1024);
  EXPECT_EQ(memory.of_files, 8 * 1024);
}

TEST(ProcessMemory, IsNothingWhereTheSystemDoesNotSay) {
  const ScratchFolder root;
  const ProcessMemory memory = process_memory(root.path());
  EXPECT_EQ(memory.peak, 0);
  EXPECT_EQ(memory.anonymous, 0);
}

TEST(ProcessMemory, GrowsWithWhatIsTaken) {
  constexpr std::size_t kBytes = 64U << 20;
  const ProcessMemory before = process_memory();
  std::vector<char> taken(kBytes, 1);
  const ProcessMemory after = process_memory();
  EXPECT_GT(before.resident, 0);
  EXPECT_GE(after.peak, before.resident + static_cast<std::int64_t>(kBytes) / 2 + taken.front());
}

}  // namespace
}  // namespace rookery
