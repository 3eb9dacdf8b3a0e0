// Descriptors of which a thread waits for any to be readable, by epoll(7): a look takes as long as what it
// finds, however many there are.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "node/transport/local/descriptor.hpp"

namespace rookery {

// One thread at a time; another one may wait() meanwhile.
class DescriptorSet {
 public:
  // Of none. TransportError where the kernel gives no descriptor, of which assign() needs none.
  DescriptorSet();
  // From here on these, and none of those before; -1 is nothing. TransportError where one cannot be waited
  // for.
  void assign(std::span<const int> descriptors);
  // Not this one, but for a wait() that has found it already. Before it is closed: another thread's may have
  // its number then, and where another process has a copy of it, it would seem readable for ever.
  void remove(int descriptor);
  // The places among them of those that can be read now, or within so many milliseconds; some of them where
  // there are many. Valid until the next wait().
  std::span<const std::size_t> wait(int milliseconds);

 private:
  static constexpr std::size_t kMostAtOnce = 64;
  Descriptor epoll_;
  std::vector<int> descriptors_;
  std::array<std::size_t, kMostAtOnce> readable_{};
};

}  // namespace rookery
