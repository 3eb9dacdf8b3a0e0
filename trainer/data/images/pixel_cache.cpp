#include "trainer/data/images/pixel_cache.hpp"

#include <algorithm>

#include "models/base/check.hpp"

namespace rookery {

PixelCache::PixelCache(std::int64_t samples, std::int64_t sample_bytes, std::int64_t bytes)
    : sample_bytes_(sample_bytes),
      kept_(std::min(samples, bytes / (sample_bytes + 1))),
      pixels_(AlignedBuffer::unwritten(static_cast<std::size_t>(kept_ * sample_bytes), host_device())),
      states_(std::make_unique<std::atomic<State>[]>(static_cast<std::size_t>(kept_))) {}

std::span<const std::uint8_t> PixelCache::find(std::int64_t sample) const {
  if (sample >= kept_ || states_[sample].load(std::memory_order_acquire) != kFilled) return {};
  const auto* first = reinterpret_cast<const std::uint8_t*>(pixels_.data() + sample * sample_bytes_);
  return {first, static_cast<std::size_t>(sample_bytes_)};
}

void PixelCache::keep(std::int64_t sample, std::span<const std::uint8_t> pixels) {
  ROOKERY_CHECK(std::ssize(pixels) == sample_bytes_, "{} bytes of {}", pixels.size(), sample_bytes_);
  if (sample >= kept_) return;
  std::atomic<State>& state = states_[sample];
  State empty = kEmpty;
  if (!state.compare_exchange_strong(empty, kBeingFilled)) return;
  std::copy(pixels.begin(), pixels.end(),
            reinterpret_cast<std::uint8_t*>(pixels_.data() + sample * sample_bytes_));
  state.store(kFilled, std::memory_order_release);
}

}  // namespace rookery
