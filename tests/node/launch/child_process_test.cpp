#include "node/launch/child_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "models/base/process/stop_signals.hpp"

namespace rookery {
namespace {

// Waits for a line's end or the stream's.
std::vector<std::string> read_some(LineReader& reader) {
  std::vector<std::string> lines;
  while (lines.empty() && reader.descriptor() >= 0) {
    pollfd item{reader.descriptor(), POLLIN, 0};
    ::poll(&item, 1, -1);
    reader.read([&](const std::string& line) { lines.push_back(line); });
  }
  return lines;
}

int wait_for_end(ChildProcess& process) {
  while (process.standard_output().descriptor() >= 0) read_some(process.standard_output());
  std::optional<int> code;
  while (!(code = process.exit_code())) ::poll(nullptr, 0, 1);
  return *code;
}

ChildProcess shell(const std::string& script) {
  return ChildProcess({"/bin/sh", "-c", script});
}

TEST(ChildProcess, ItsLinesAndItsCodeArrive) {
  ChildProcess process = shell("echo one; printf two; echo trouble >&2; exit 3");
  EXPECT_EQ(read_some(process.standard_error()), std::vector<std::string>{"trouble"});
  std::vector<std::string> lines;
  while (process.standard_output().descriptor() >= 0) {
    for (std::string& line : read_some(process.standard_output())) lines.push_back(line);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(wait_for_end(process), 3);
}

TEST(ChildProcess, ASignalCountsAsAShellCountsIt) {
  ChildProcess process = shell("echo ready; exec sleep 1000");
  EXPECT_EQ(read_some(process.standard_output()), std::vector<std::string>{"ready"});
  EXPECT_FALSE(process.exit_code());
  process.signal(SIGTERM);
  EXPECT_EQ(wait_for_end(process), 128 + SIGTERM);
}

// The test's own thread no longer gets them.
TEST(ChildProcess, ItGetsSignalsWhereTheParentCatchesThem) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        catch_stop_signals();
        ChildProcess process = shell("echo ready; exec sleep 1000");
        read_some(process.standard_output());
        process.signal(SIGTERM);
        std::_Exit(wait_for_end(process) == 128 + SIGTERM ? 42 : 1);
      },
      testing::ExitedWithCode(42), "");
}

TEST(ChildProcess, ItIsNotInThisProcessGroup) {
  ChildProcess process = shell("ps -o pgid= -p $$ 2>/dev/null || cut -d' ' -f5 /proc/$$/stat");
  const auto lines = read_some(process.standard_output());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(std::stoi(lines[0]), ::getpgrp());
}

TEST(ChildProcess, AProgramThatIsNotThereSaysSo) {
  ChildProcess process({"/nowhere/provider"});
  EXPECT_THAT(read_some(process.standard_error()),
              testing::ElementsAre(testing::HasSubstr("cannot start /nowhere/provider")));
  EXPECT_EQ(wait_for_end(process), 127);
}

TEST(ChildProcess, NoneOutlivesItsOwner) {
  std::string pid;
  {
    ChildProcess process = shell("echo $$; exec sleep 1000");
    pid = read_some(process.standard_output()).at(0);
  }
  EXPECT_NE(::kill(std::stoi(pid), 0), 0);
}

}  // namespace
}  // namespace rookery
