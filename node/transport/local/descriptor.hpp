// A file descriptor, closed when its owner goes.
#pragma once

#include <unistd.h>

#include <utility>

namespace rookery {

class Descriptor {
 public:
  Descriptor() = default;  // of nothing
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset();
    number_ = std::exchange(other.number_, -1);
    return *this;
  }

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }  // -1: none
  void reset() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

}  // namespace rookery
