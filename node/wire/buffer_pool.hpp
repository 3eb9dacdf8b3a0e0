// Memory for tensors on their way between machines. It is taken and touched before a run begins, so that
// the peak of a process is known from the start, and used again, which spares the page faults of fresh
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace rookery {

// A tensor on its way out or in: bytes that chunks share.
using SharedBytes = std::shared_ptr<std::byte[]>;

// Copies share one pool, which several threads may use. Bytes that it has given may outlive it.
class BufferPool {
 public:
  // One buffer for each of these sizes, but for small ones, which are left to the heap.
  explicit BufferPool(const std::vector<std::uint64_t>& sizes = {});

  // At least `bytes`: the smallest free buffer that holds them, or fresh memory where there is none. It is
  // free again when the last reference is gone.
  SharedBytes take(std::uint64_t bytes) const;
  // The size of all buffers, free or not.
  std::uint64_t bytes() const;

 private:
  struct Buffers;
  std::shared_ptr<Buffers> buffers_;  // bytes on their way keep it alive
};

}  // namespace rookery
