// A device holds the memory of tensors. All that the project does with memory of a device, beside running
// kernels on it, are these functions.
#pragma once

#include <cstddef>

namespace rookery {

// Functions may be called by several threads at once. Copies and fills are done when they return.
class Device {
 public:
  virtual ~Device() = default;
  virtual const char* name() const = 0;

  // Memory aligned to kAlignment, of at least one byte; it may hold anything. std::bad_alloc where there is
  // none.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* memory, std::size_t bytes) noexcept = 0;

  virtual void fill(std::byte* memory, std::byte value, std::size_t bytes) = 0;
  virtual void copy_from_host(const std::byte* host, std::byte* memory, std::size_t bytes) = 0;
  virtual void copy_to_host(const std::byte* memory, std::byte* host, std::size_t bytes) = 0;
  // Within this device; the two do not overlap.
  virtual void copy(const std::byte* from, std::byte* to, std::size_t bytes) = 0;
};

// The memory of this process, which its own code reads and writes.
Device& host_device();

}  // namespace rookery
