#include "models/base/program.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/log.hpp"

namespace rookery {
namespace {

std::atomic<int> caught_signal{0};
int stop_event = -1;

// A terminal that closes sends SIGHUP more than once: by the shell and by the kernel. That is nobody's
// impatience.
void on_stop_signal(int signal) {
  int before = 0;
  if (!caught_signal.compare_exchange_strong(before, signal)) {
    if (signal == SIGHUP) return;
    ::_exit(kSignalBase + signal);
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(stop_event, &one, sizeof one);
}

void print_help(const ProgramInfo& info, const ProgramOptions& options) {
  ProgramOptions all("Options");
  for (const auto& option : options.options()) all.add(option);
  std::ostringstream listing;
  listing << all;
  fmt::print("{}: {}\n\n{}\nExample:\n{}\n", info.name, info.summary, listing.str(), info.example);
}

// Throws nothing: the terminal may be gone.
int report(const ProgramInfo& info, const char* message, int code) {
  std::fflush(stdout);
  std::fputs(fmt::format("{}: {}\n", info.name, message).c_str(), stderr);
  return code;
}

}  // namespace

int run_program(const ProgramInfo& info, ProgramOptions options, int argc, char** argv,
                const std::function<int(const ProgramArguments&)>& body) {
  namespace po = boost::program_options;
  options.add_options()("help,h", "show this help")("version", "show the version");
  init_logging(info.name);
  try {
    ProgramArguments arguments;
    try {
      po::store(po::command_line_parser(argc, argv).options(options).positional({}).run(), arguments);
      if (arguments.count("help") != 0) return print_help(info, options), kDone;
      if (arguments.count("version") != 0) return fmt::print("rookery {}\n", ROOKERY_VERSION), kDone;
      po::notify(arguments);
    } catch (const po::error& error) {
      throw UsageError(fmt::format("{} (see {} --help)", error.what(), info.name));
    }
    return body(arguments);
  } catch (const UsageError& error) {
    return report(info, error.what(), kWrongUsage);
  } catch (const Interrupted& error) {
    return report(info, error.what(), kSignalBase + error.signal());
  } catch (const std::exception& error) {
    return report(info, error.what(), kFailed);
  }
}

void catch_stop_signals() {
  if (stop_event >= 0) return;
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
}

std::string signal_name(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT (Ctrl-C)";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP (terminal closed)";
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

void throw_if_stopped() {
  if (const int signal = stop_signal(); signal != 0)
    throw Interrupted(signal, fmt::format("stopped by {}", signal_name(signal)));
}

}  // namespace rookery
