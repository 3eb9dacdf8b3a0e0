// Ends the wait of the thread that does the I/O: an eventfd that it has among its sockets.
#pragma once

#include <atomic>

namespace rookery {

class Waker {
 public:
  Waker();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  // Readable from wake_up() until reset().
  int descriptor() const { return descriptor_; }
  // Any thread, after saying what there is to do.
  void wake_up();
  // Once the descriptor was seen to be readable, and before looking for what there is to do.
  void reset();

 private:
  const int descriptor_;
  std::atomic<bool> is_pending_{false};
};

}  // namespace rookery
