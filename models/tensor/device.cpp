#include "models/tensor/device.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "models/tensor/tensor.hpp"

namespace rookery {
namespace {

// From here on memory is a mapping of its own: the heap would keep what is freed. It takes large pages where
// the system has them: kernels walk through many places of it at once.
constexpr std::size_t kOwnMapping = std::size_t{1} << 18;

class Host final : public Device {
 public:
  const char* name() const override { return "host"; }

  std::byte* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    if (bytes >= kOwnMapping) {
      memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) {
        memory = nullptr;
      } else {
        ::madvise(memory, bytes, MADV_HUGEPAGE);
      }
    } else {
      memory = std::aligned_alloc(kAlignment, align_up(bytes));
    }
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<std::byte*>(memory);
  }

  void release(std::byte* memory, std::size_t bytes) noexcept override {
    if (bytes >= kOwnMapping) {
      ::munmap(memory, bytes);
    } else {
      std::free(memory);
    }
  }

  void fill(std::byte* memory, std::byte value, std::size_t bytes) override {
    std::memset(memory, std::to_integer<int>(value), bytes);
  }
  void copy_from_host(const std::byte* host, std::byte* memory, std::size_t bytes) override {
    copy(host, memory, bytes);
  }
  void copy_to_host(const std::byte* memory, std::byte* host, std::size_t bytes) override {
    copy(memory, host, bytes);
  }
  void copy(const std::byte* from, std::byte* to, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
};

}  // namespace

Device& host_device() {
  // Never destroyed: tensors in static storage give their memory back after it would be.
  static Host& host = *new Host;
  return host;
}

}  // namespace rookery
