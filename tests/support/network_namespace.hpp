// A machine of its own as far as the network goes: a network namespace of Linux, which ends with the object.
// Only root may make one.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "models/base/libraries/format.hpp"

namespace rookery {

class NetworkNamespace {
 public:
  NetworkNamespace() {
    std::thread([this] {
      if (::unshare(CLONE_NEWNET) == 0)
        descriptor_ = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    }).join();
  }
  ~NetworkNamespace() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  NetworkNamespace(const NetworkNamespace&) = delete;
  NetworkNamespace& operator=(const NetworkNamespace&) = delete;

  bool exists() const { return descriptor_ >= 0; }
  // For commands of another namespace.
  std::string path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), descriptor_); }

  // Does it in a thread that is there; threads that it starts are there, too.
  void run(const std::function<void()>& action) const {
    std::thread([&] {
      if (::setns(descriptor_, CLONE_NEWNET) == 0) action();
    }).join();
  }
  void command(const std::string& line) const {
    int code = -1;
    run([&] { code = std::system(line.c_str()); });
    if (code != 0) throw std::runtime_error(line + " failed");
  }

 private:
  int descriptor_ = -1;
};

}  // namespace rookery
