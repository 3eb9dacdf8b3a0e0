#include "node/transport/threads/waker.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "models/base/check.hpp"

namespace rookery {

Waker::Waker() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  ROOKERY_CHECK(descriptor_ >= 0, "no eventfd");
}

Waker::~Waker() {
  ::close(descriptor_);
}

void Waker::wake_up() {
  if (is_pending_.exchange(true)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, &one, sizeof one);
}

// Whoever wakes up until the exchange writes nothing, so that what is read here is the one write of this
// round.
void Waker::reset() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read_bytes = ::read(descriptor_, &count, sizeof count);
  is_pending_.exchange(false);
}

}  // namespace rookery
