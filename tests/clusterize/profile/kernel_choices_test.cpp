#include "clusterize/profile/kernel_choices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

const MeasuredKernels::Known kKnown{{"Conv of one shape", "onednn/blocked-winograd"}};
const MeasuredKernels::Known kMore{{"Conv of another", "onednn/blocked-direct"}};

TEST(KernelChoices, AreKeptByMachine) {
  const ScratchFolder folder;
  const auto file = kernel_choices_path(folder.path());
  EXPECT_TRUE(read_kernel_choices(file, "this").empty());
  write_kernel_choices(file, "this", kKnown);
  write_kernel_choices(file, "that", kMore);
  EXPECT_EQ(read_kernel_choices(file, "this"), kKnown);
  EXPECT_EQ(read_kernel_choices(file, "that"), kMore);
  EXPECT_TRUE(read_kernel_choices(file, "a third").empty());
  const std::string before = read_file(file, 1 << 20);
  write_kernel_choices(file, "this", kKnown);
  EXPECT_EQ(read_file(file, 1 << 20), before);
}

TEST(KernelChoices, NothingMeasuredLeavesNoFile) {
  const ScratchFolder folder;
  const auto file = kernel_choices_path(folder.path());
  write_kernel_choices(file, "this", {});
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(KernelChoices, ADamagedOrNewerFileIsRefusedWithAWayOut) {
  const ScratchFolder folder;
  const auto file = kernel_choices_path(folder.path());
  for (const char* text :
       {"", "{", "[]", R"({"format": "rookery.plan", "version": 1, "machines": {}})",
        R"({"format": "rookery.kernel_choices", "version": 2, "machines": {}})",
        R"({"format": "rookery.kernel_choices", "version": 1, "machines": {"this": {"key": 3}}})"}) {
    std::ofstream(file) << text;
    EXPECT_THAT([&] { read_kernel_choices(file, "this"); },
                testing::ThrowsMessage<ConfigError>(testing::AllOf(testing::HasSubstr("kernel_choices.json"),
                                                                   testing::HasSubstr("measured again"))))
        << text;
  }
}

}  // namespace
}  // namespace rookery
