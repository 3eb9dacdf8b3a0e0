#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <thread>

#include "models/base/error.hpp"
#include "models/base/process/program.hpp"
#include "models/base/process/stop_signals.hpp"
#include "tests/support/stop_with.hpp"

namespace rookery {
namespace {

bool is_readable(int descriptor) {
  pollfd item{descriptor, POLLIN, 0};
  return ::poll(&item, 1, 0) == 1;
}

bool throws_interrupted() {
  try {
    throw_if_stopped();
    return false;
  } catch (const Interrupted&) {
    return true;
  }
}

// Signals are of a process, so each case has one of its own.
void expect_in_a_process(const std::function<bool()>& holds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        catch_stop_signals();
        std::_Exit(holds() ? 42 : 1);
      },
      testing::ExitedWithCode(42), "");
}

TEST(StopDeferral, KeepsASignalBackUntilTheLastIsGone) {
  expect_in_a_process([] {
    std::optional<StopDeferral> first(std::in_place), second(std::in_place);
    stop_with(SIGTERM);
    bool is_kept = is_stop_deferred() && stop_signal() == SIGTERM;
    first.reset();
    is_kept = is_kept && is_stop_deferred() && !throws_interrupted() && !is_readable(stop_descriptor());
    second.reset();
    return is_kept && !is_stop_deferred() && throws_interrupted() && is_readable(stop_descriptor());
  });
}

TEST(StopDeferral, WithoutASignalItLeavesNothing) {
  expect_in_a_process([] {
    { const StopDeferral deferral; }
    return !throws_interrupted() && !is_readable(stop_descriptor());
  });
}

TEST(StopDeferral, ASignalThatWasThereBeforeIsNotKeptBack) {
  expect_in_a_process([] {
    stop_with(SIGINT);
    const StopDeferral deferral;
    return !is_stop_deferred() && throws_interrupted() && is_readable(stop_descriptor());
  });
}

TEST(StopDeferral, ASecondSignalEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        catch_stop_signals();
        const StopDeferral deferral;
        stop_with(SIGINT);
        ::kill(::getpid(), SIGTERM);
        std::this_thread::sleep_for(std::chrono::seconds(60));
        std::_Exit(1);
      },
      testing::ExitedWithCode(kSignalBase + SIGTERM), "");
}

// Not all libraries begin one again.
TEST(StopSignals, InterruptNoSystemCall) {
  expect_in_a_process([] {
    std::jthread other([] { stop_with(SIGINT); });
    int interrupted = 0;
    while (stop_signal() == 0)
      if (::poll(nullptr, 0, 20) < 0) ++interrupted;
    return interrupted == 0;
  });
}

}  // namespace
}  // namespace rookery
