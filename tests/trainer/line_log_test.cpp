#include "trainer/progress/line_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <csignal>
#include <sstream>
#include <string>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

TEST(LineLog, FoldersThatAreNotThereAreNamed) {
  EXPECT_THROW(LineLog("/nowhere/at/all/losses.txt"), DataError);
}

// A limit on the size of files stands for the disk; it holds for the whole process, so each has its own.
void limit_file_size(rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  setrlimit(RLIMIT_FSIZE, &limit);
}

// The log goes there: standard error is a file, too, in a death test.
void log_to(std::ostringstream& text) {
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(text);
  sink->set_pattern("%v");
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
}

TEST(LineLog, AFullDiskIsToldAndTheLinesWaitForRoom) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "losses.txt";
  EXPECT_EXIT(
      {
        std::ostringstream told;
        log_to(told);
        LineLog log(path);
        log.write("1.5");
        limit_file_size(6);
        log.write("1.25");
        log.write("1.125");
        limit_file_size(RLIM_INFINITY);
        log.write("1");
        const std::string warning =
            path.string() +
            ": cannot write: File too large: training goes on, and the lines from 2 on "
            "wait in memory for room\n";
        std::_Exit(read_file(path, 100) == "1.5\n1.25\n1.125\n1\n" && told.str() == warning ? 42 : 1);
      },
      testing::ExitedWithCode(42), "");
}

TEST(LineLog, WhatFindsNoRoomIsToldAtTheEndAndLeavesNoHalfLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "losses.txt";
  EXPECT_EXIT(
      {
        std::ostringstream told;
        log_to(told);
        {
          LineLog log(path, 5);
          limit_file_size(6);
          for (int line = 0; line < 300000; ++line) log.write("1.5");
        }
        std::_Exit(read_file(path, 100) == "1.5\n" &&
                           told.str().ends_with(path.string() +
                                                " ends with line 1; the 299999 after it could "
                                                "not be written and are lost\n")
                       ? 42
                       : 1);
      },
      testing::ExitedWithCode(42), "");
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
