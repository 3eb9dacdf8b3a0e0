#include "trainer/progress/line_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "tests/support/captured_log.hpp"
#include "tests/support/failing_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(LineLog, FoldersThatAreNotThereAreNamed) {
  EXPECT_THROW(LineLog("/nowhere/at/all/losses.txt"), DataError);
}

TEST(LineLog, AFullDiskIsToldAndTheLinesWaitForRoom) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "losses.txt";
  CapturedLog told;
  FailingFiles disk;
  LineLog log(path);
  log.write("1.5");
  disk.room = 2;
  log.write("1.25");
  EXPECT_EQ(read_file(path, 100), "1.5\n1.");
  log.write("1.125");
  disk.room = FailingFiles::kUnlimited;
  log.write("1");
  EXPECT_EQ(read_file(path, 100), "1.5\n1.25\n1.125\n1\n");
  EXPECT_THAT(
      told.lines(),
      ElementsAre(path.string() +
                  ": cannot write: No space left on device: training goes on, and the lines from 2 on "
                  "wait in memory for room"));
}

TEST(LineLog, WhatFindsNoRoomIsToldAtTheEndAndLeavesNoHalfLine) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "losses.txt";
  CapturedLog told;
  {
    FailingFiles disk;
    LineLog log(path, 5);
    disk.room = 6;
    for (int line = 0; line < 300000; ++line) log.write("1.5");
  }
  EXPECT_EQ(read_file(path, 100), "1.5\n");
  EXPECT_THAT(told.lines(),
              ElementsAre(HasSubstr("cannot write"),
                          path.string() +
                              " ends with line 1; the 299999 after it could not be written and are lost"));
}

TEST(LineLog, WithoutADescriptorItDoesNotBegin) {
  const ScratchFolder folder;
  FailingFiles disk;
  disk.descriptors = 0;
  EXPECT_THROW(LineLog(folder.path() / "losses.txt"), DataError);
}

TEST(LineLog, WithoutRoomItDoesNotBegin) {
  const ScratchFolder folder;
  std::string message;
  try {
    LineLog(folder.path() / "losses.txt", std::uint64_t{1} << 62);
  } catch (const DataError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("losses.txt: no room for 4611686018427387904 bytes: "));
}

}  // namespace
}  // namespace rookery
