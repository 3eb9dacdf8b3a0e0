// Every command of Rookery shares these: --help and --version, exit codes, signals.
#pragma once

#include <boost/program_options.hpp>
#include <functional>
#include <string>
#include <string_view>
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
// standard error: "NAME: what, where, with which numbers, and what to do". Standard output that could not be
// written makes 1 of a 0, or 128 + SIGPIPE where its reader has closed the pipe.
int run_program(const ProgramInfo& info, ProgramOptions options, int argc, char** argv,
                const std::function<int(const ProgramArguments&)>& body);

// Prints to standard output what people wait to see. That it cannot be written ends nothing that goes on and
// is told by run_program() at the end; a reader that has closed the pipe counts as a stop signal, SIGPIPE,
// once catch_stop_signals() was called. One thread at a time.
void print_now(std::string_view text);

// From here on SIGINT, SIGTERM and SIGHUP only set a flag; a second one, but for SIGHUP, ends the process at
// once. A SIGHUP that is ignored stays ignored: nohup wants it so. Any thread, any number of times.
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

// While one of these is there a stop signal that comes is kept back: stop_signal() tells it, but
// throw_if_stopped() does not throw and stop_descriptor() is not readable before the last of them is gone.
// For work that, asked to stop, comes to a good end by itself. A second signal ends the process as ever. One
// that is made when a signal has come already keeps nothing back. Any thread.
class StopDeferral {
 public:
  StopDeferral();
  ~StopDeferral();
  StopDeferral(const StopDeferral&) = delete;
  StopDeferral& operator=(const StopDeferral&) = delete;

 private:
  bool defers_ = true;
};
// Whether a stop signal is kept back.
bool is_stop_deferred();

}  // namespace rookery
