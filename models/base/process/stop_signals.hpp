// The signals that ask a process to stop: whether one has come, and how what waits learns of it.
#pragma once

#include <string>

namespace rookery {

// From here on SIGINT, SIGTERM and SIGHUP only set a flag; a second one, but for SIGHUP, ends the process at
// once. A SIGHUP that is ignored stays ignored: nohup wants it so. SIGPIPE is ignored. A thread of its own
// receives them: they interrupt no system call of the calling thread, nor of those that it starts from here
// on. Any thread, any number of times; the first call comes before threads that are to be spared are started.
void catch_stop_signals();
// In a new process, between fork() and exec(): what it becomes gets stop signals again.
void accept_stop_signals();
// The signal caught, or 0.
int stop_signal();
// "SIGINT (Ctrl-C)"
std::string signal_name(int signal);
// A descriptor that becomes readable when a stop signal comes; for poll loops. Valid after
// catch_stop_signals().
int stop_descriptor();
// The signal that comes in another way than from the kernel: SIGPIPE, where a reader is found to be gone.
// Counts only after catch_stop_signals() and if no other has come.
void note_stop_signal(int signal);
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
