#include "models/base/process/program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <system_error>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/log.hpp"
#include "models/base/process/stop_signals.hpp"
#include "models/base/process/terminal.hpp"

namespace rookery {
namespace {

void print_help(const ProgramInfo& info, const ProgramOptions& options) {
  ProgramOptions all("Options");
  for (const auto& option : options.options()) all.add(option);
  std::ostringstream listing;
  listing << all;
  fmt::print("{}: {}\n\n{}\nExample:\n{}\n", info.name, info.summary, listing.str(), info.example);
}

// Standard error that takes nothing has nobody to be told.
int report(const ProgramInfo& info, std::string_view message, int code) {
  std::fflush(stdout);
  std::fputs(fmt::format("{}: {}\n", info.name, message).c_str(), stderr);
  return code;
}

// Where standard input, output or error is closed, the next file that is opened would get its number, and
// what is printed would go into it. These take the numbers, and every use of them fails.
void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
      ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// The first reason why standard output could not be written; 0: it could.
std::atomic<int> output_error{0};

void note_output_error(int reason) {
  int none = 0;
  output_error.compare_exchange_strong(none, reason == 0 ? EIO : reason);
}

// `code`, or what becomes of it where standard output could not be written.
int finish_output(const ProgramInfo& info, int code) {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) note_output_error(errno);
  const int reason = output_error.load();
  if (reason == 0 || code != kDone) return code;
  if (reason == EPIPE) return kSignalBase + SIGPIPE;
  return report(info, fmt::format("standard output: cannot write: {}", std::strerror(reason)), kFailed);
}

void add_common_options(ProgramOptions& options) {
  namespace po = boost::program_options;
  options.add_options()("quiet,q", "no progress: only results, warnings and errors")(
      "log-level", po::value<std::string>()->value_name("LEVEL"),
      "what standard error is told beside errors that end the program: trace, debug, info, warn, error or "
      "off; "
      "default: $ROOKERY_LOG, otherwise info, or warn with --quiet")("help,h", "show this help")(
      "version", "show the version");
}

void apply_output_options(const ProgramArguments& arguments) {
  const bool quiet = arguments.count("quiet") != 0;
  if (quiet) show_no_progress();
  if (arguments.count("log-level") != 0) {
    set_log_level(arguments["log-level"].as<std::string>(), "--log-level");
  } else if (quiet && std::getenv("ROOKERY_LOG") == nullptr) {
    set_log_level("warn", "--quiet");
  }
}

int run_body(const ProgramInfo& info, const ProgramOptions& options, int argc, char** argv,
             const std::function<int(const ProgramArguments&)>& body) {
  namespace po = boost::program_options;
  try {
    ProgramArguments arguments;
    try {
      po::store(po::command_line_parser(argc, argv).options(options).positional({}).run(), arguments);
      if (arguments.count("help") != 0) return print_help(info, options), kDone;
      if (arguments.count("version") != 0) return fmt::print("rookery {}\n", ROOKERY_VERSION), kDone;
      init_logging(info.name);
      apply_output_options(arguments);
      po::notify(arguments);
    } catch (const po::error& error) {
      throw UsageError(fmt::format("{} (see {} --help)", error.what(), info.name));
    }
    return body(arguments);
  } catch (const UsageError& error) {
    return report(info, error.what(), kWrongUsage);
  } catch (const Interrupted& error) {
    return report(info, error.what(), kSignalBase + error.signal());
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) return report(info, error.what(), kFailed);
    note_output_error(error.code().value());  // by fmt::print
    return kDone;
  } catch (const std::exception& error) {
    return report(info, error.what(), kFailed);
  }
}

}  // namespace

int run_program(const ProgramInfo& info, ProgramOptions options, int argc, char** argv,
                const std::function<int(const ProgramArguments&)>& body) {
  add_common_options(options);
  occupy_standard_descriptors();
  ::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is an error of the write, not the end
  return finish_output(info, run_body(info, options, argc, argv, body));
}

std::vector<std::string> output_arguments(const ProgramArguments& arguments) {
  std::vector<std::string> given;
  if (arguments.count("quiet") != 0) given.emplace_back("--quiet");
  if (arguments.count("log-level") != 0)
    given.insert(given.end(), {"--log-level", arguments["log-level"].as<std::string>()});
  return given;
}

void print_now(std::string_view text) {
  if (output_error.load() != 0) return;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  note_output_error(errno);
  if (output_error.load() == EPIPE) note_stop_signal(SIGPIPE);
}

}  // namespace rookery
