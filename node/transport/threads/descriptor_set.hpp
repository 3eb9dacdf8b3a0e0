// Descriptors of which a thread waits for any to be readable, by epoll(7): a look takes as long as what it
// finds, however many there are.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "node/transport/local/descriptor.hpp"

namespace rookery {

// One thread at a time.
class DescriptorSet {
 public:
  // From here on these, and none of those before; -1 is nothing. One that is closed may seem readable until
  // there are others. Error where the kernel gives none.
  void assign(std::span<const int> descriptors);
  // The places among them of those that can be read now, or within so many milliseconds; some of them where
  // there are many. Valid until the next call.
  std::span<const std::size_t> wait(int milliseconds);

 private:
  static constexpr std::size_t kMostAtOnce = 64;
  Descriptor epoll_;
  std::array<std::size_t, kMostAtOnce> readable_{};
};

}  // namespace rookery
