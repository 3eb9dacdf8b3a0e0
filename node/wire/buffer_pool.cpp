#include "node/wire/buffer_pool.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "models/tensor/tensor.hpp"

namespace rookery {
namespace {

// Smaller ones are not worth a place, and would take those of larger ones.
constexpr std::uint64_t kLeastBytes = 4096;

}  // namespace

struct BufferPool::Buffers {
  std::mutex mutex;
  std::vector<AlignedBuffer> memory;
  std::multimap<std::uint64_t, std::byte*> free;  // by size
};

BufferPool::BufferPool(const std::vector<std::uint64_t>& sizes) : buffers_(std::make_shared<Buffers>()) {
  for (const std::uint64_t size : sizes) {
    if (size < kLeastBytes) continue;
    AlignedBuffer& buffer = buffers_->memory.emplace_back(size);
    buffers_->free.emplace(size, buffer.data());
  }
}

std::uint64_t BufferPool::bytes() const {
  std::uint64_t sum = 0;
  for (const AlignedBuffer& buffer : buffers_->memory) sum += buffer.size();
  return sum;
}

SharedBytes BufferPool::take(std::uint64_t bytes) const {
  if (bytes < kLeastBytes) return std::make_shared_for_overwrite<std::byte[]>(bytes);
  const std::lock_guard lock(buffers_->mutex);
  const auto smallest = buffers_->free.lower_bound(bytes);
  if (smallest == buffers_->free.end()) return std::make_shared_for_overwrite<std::byte[]>(bytes);
  const auto [size, memory] = *smallest;
  buffers_->free.erase(smallest);
  return {memory, [owner = buffers_, size = size](std::byte* returned) {
            const std::lock_guard lock_again(owner->mutex);
            owner->free.emplace(size, returned);
          }};
}

}  // namespace rookery
