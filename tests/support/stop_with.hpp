// Stop signals as they come from elsewhere.
#pragma once

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "models/base/process/stop_signals.hpp"

namespace rookery {

// Sends this process the first one; returns when it is caught.
inline void stop_with(int signal) {
  ::kill(::getpid(), signal);
  while (stop_signal() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace rookery
