#include "models/base/process/stop_signals.hpp"

#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/program.hpp"

namespace rookery {
namespace {

constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGHUP};

std::atomic<int> caught_signal{0};
std::atomic<int> stop_event{-1};
std::atomic<int> deferrals{0};

// After the signal is set, or after a deferral has ended: whoever comes second of a signal and the end of the
// last deferral sees the other.
void wake_stop_waiters() {
  if (deferrals.load() > 0) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(stop_event, &one, sizeof one);
}

// A terminal that closes sends SIGHUP more than once: by the shell and by the kernel. That is nobody's
// impatience.
void on_stop_signal(int signal) {
  int before = 0;
  if (!caught_signal.compare_exchange_strong(before, signal)) {
    if (signal == SIGHUP) return;
    ::_exit(kSignalBase + signal);
  }
  wake_stop_waiters();
}

sigset_t stop_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : kStopSignals) ::sigaddset(&signals, signal);
  return signals;
}

// Signals go to a thread that has nothing else to do. Elsewhere they would interrupt system calls, and not
// all that libraries make are begun again: ZeroMQ's fail.
void receive_signals_on_own_thread() {
  const sigset_t signals = stop_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    while (true) ::pause();
  }).detach();
}

void catch_signals() {
  stop_event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ROOKERY_CHECK(stop_event >= 0, "no eventfd");
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  ::sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  struct sigaction before {};
  ::sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  receive_signals_on_own_thread();
}

}  // namespace

void catch_stop_signals() {
  static std::once_flag once;
  std::call_once(once, catch_signals);
}

void accept_stop_signals() {
  const sigset_t signals = stop_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

std::string signal_name(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT (Ctrl-C)";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP (terminal closed)";
    case SIGPIPE:
      return "SIGPIPE (nobody reads its output any more)";
    default:
      if (const char* name = ::sigabbrev_np(signal)) return fmt::format("SIG{}", name);
      return fmt::format("signal {}", signal);
  }
}

int stop_signal() {
  return caught_signal.load();
}

int stop_descriptor() {
  ROOKERY_CHECK(stop_event >= 0, "catch_stop_signals() comes first");
  return stop_event;
}

void note_stop_signal(int signal) {
  int none = 0;
  if (stop_event >= 0 && caught_signal.compare_exchange_strong(none, signal)) wake_stop_waiters();
}

void throw_if_stopped() {
  if (const int signal = stop_signal(); signal != 0 && !is_stop_deferred())
    throw Interrupted(signal, fmt::format("stopped by {}", signal_name(signal)));
}

StopDeferral::StopDeferral() {
  ++deferrals;
  if (stop_signal() == 0) return;
  defers_ = false;
  --deferrals;
  wake_stop_waiters();  // of a signal that has come in between
}

StopDeferral::~StopDeferral() {
  if (!defers_) return;
  --deferrals;
  if (stop_signal() != 0) wake_stop_waiters();
}

bool is_stop_deferred() {
  return stop_signal() != 0 && deferrals.load() > 0;
}

}  // namespace rookery
