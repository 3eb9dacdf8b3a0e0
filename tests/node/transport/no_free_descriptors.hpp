#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "node/transport/local/descriptor.hpp"

namespace rookery {

// Until its end the process gets no new descriptor; those that it has stay.
class NoFreeDescriptors {
 public:
  NoFreeDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{STDERR_FILENO + 1, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (Descriptor copy(::dup(STDERR_FILENO)); copy; copy = Descriptor(::dup(STDERR_FILENO)))
      taken_.push_back(std::move(copy));
  }
  ~NoFreeDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoFreeDescriptors(const NoFreeDescriptors&) = delete;
  NoFreeDescriptors& operator=(const NoFreeDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<Descriptor> taken_;
};

}  // namespace rookery
