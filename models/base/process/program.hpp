// Every command of Rookery shares these: --help, --version, --quiet and --log-level, exit codes, signals.
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

// Adds the options that all commands have to `options`, parses, prints help (exit 0), and runs `body`. Turns
// UsageError into 2, Interrupted into 128+n, any other exception into 1, each with one line on
// standard error: "NAME: what, where, with which numbers, and what to do". Standard output that could not be
// written makes 1 of a 0, or 128 + SIGPIPE where its reader has closed the pipe.
int run_program(const ProgramInfo& info, ProgramOptions options, int argc, char** argv,
                const std::function<int(const ProgramArguments&)>& body);

// --quiet and --log-level as they were given, for a command that this one starts.
std::vector<std::string> output_arguments(const ProgramArguments& arguments);

// Prints to standard output what people wait to see. That it cannot be written ends nothing that goes on and
// is told by run_program() at the end; a reader that has closed the pipe counts as a stop signal, SIGPIPE,
// once catch_stop_signals() was called. One thread at a time.
void print_now(std::string_view text);

}  // namespace rookery
