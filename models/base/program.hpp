// What every command of Rookery shares: --help and --version, exit codes, signals.
#pragma once

#include <boost/program_options.hpp>
#include <functional>
#include <string>
#include <vector>

namespace rookery {

struct ProgramInfo {
  std::string name;     // as typed
  std::string summary;  // what it does, a paragraph
  std::string example;  // commands a user can paste
};

// Exit codes of every command.
enum ExitCode : int { kDone = 0, kFailed = 1, kWrongUsage = 2, kSignalBase = 128 };

using ProgramOptions = boost::program_options::options_description;
using ProgramArguments = boost::program_options::variables_map;

// Adds --help and --version to `options`, parses, prints help (exit 0), and runs `body`. Turns
// UsageError into 2, Interrupted into 128+n, any other exception into 1, each with one line on
// standard error: "NAME: what, where, with which numbers, and what to do".
int run_program(const ProgramInfo& info, ProgramOptions options, int argc, char** argv,
                const std::function<int(const ProgramArguments&)>& body);

// From here on SIGINT, SIGTERM and SIGHUP only set a flag; a second one, but for SIGHUP, ends the process at
// once. A SIGHUP that is ignored stays ignored: nohup wants it so.
void catch_stop_signals();
// The signal caught, or 0.
int stop_signal();
// "SIGINT (Ctrl-C)"
std::string signal_name(int signal);
// A descriptor that becomes readable when a stop signal comes; for poll loops. Valid after
// catch_stop_signals().
int stop_descriptor();
// Throws Interrupted when a stop signal has come.
void throw_if_stopped();

}  // namespace rookery
