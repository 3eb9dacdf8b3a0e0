#include "models/graph/passes/memory/memory_packing.hpp"

#include <tuple>

namespace rookery {
namespace {

// Places buffers one by one, each at the lowest offset that is free during its life.
class Packer {
 public:
  explicit Packer(std::span<const Lifetime> buffers) : buffers_(buffers) {
    packing_.offsets.resize(buffers.size());
  }

  // Behind all others.
  void stack(std::size_t buffer) {
    place(buffer, packing_.bytes);
    packing_.fence = packing_.bytes;
  }

  void fit(std::size_t buffer) {
    const Lifetime& life = buffers_[buffer];
    std::size_t offset = 0;
    for (const Placed& other : placed_) {
      if (!other.life.meets(life)) continue;
      offset = clear_of_fence(offset, life.bytes);
      if (offset + life.bytes <= other.offset) break;
      offset = std::max(offset, other.offset + other.life.bytes);
    }
    place(buffer, clear_of_fence(offset, life.bytes));
  }

  const Packing& packing() const { return packing_; }

 private:
  std::size_t clear_of_fence(std::size_t offset, std::size_t bytes) const {
    const bool is_across = offset < packing_.fence && offset + bytes > packing_.fence;
    return is_across ? packing_.fence : offset;
  }

  void place(std::size_t buffer, std::size_t offset) {
    packing_.offsets[buffer] = offset;
    packing_.bytes = std::max(packing_.bytes, offset + buffers_[buffer].bytes);
    const auto behind = std::ranges::upper_bound(placed_, offset, {}, &Placed::offset);
    placed_.insert(behind, {offset, buffers_[buffer]});
  }

  struct Placed {
    std::size_t offset = 0;
    Lifetime life;
  };

  std::span<const Lifetime> buffers_;
  Packing packing_;
  std::vector<Placed> placed_;  // by rising offset
};

// Smaller comes first.
using Rank = std::tuple<double, double>;
using Order = Rank (*)(const Lifetime&);

double size(const Lifetime& life) {
  return static_cast<double>(life.bytes);
}
double length(const Lifetime& life) {
  return 1.0 + life.last - life.first;
}

constexpr Order kOrders[] = {
    [](const Lifetime& life) { return Rank(-size(life), -length(life)); },
    [](const Lifetime& life) { return Rank(-size(life) * length(life), 0); },
    [](const Lifetime& life) { return Rank(-length(life), -size(life)); },
    [](const Lifetime& life) { return Rank(life.first, -size(life)); },
    [](const Lifetime& life) { return Rank(-life.last, -size(life)); },
};

constexpr int kAttempts = 12;  // with each order

}  // namespace

Packing pack(std::span<const Lifetime> buffers, std::span<const std::size_t> stacked) {
  Packer base(buffers);
  std::vector<bool> is_stacked(buffers.size(), false);
  for (const std::size_t buffer : stacked) {
    base.stack(buffer);
    is_stacked[buffer] = true;
  }
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].is_used() && !is_stacked[i]) others.push_back(i);
  }
  const std::size_t least = std::max(base.packing().bytes, live_bytes(buffers));
  Packing best;
  for (const Order order : kOrders) {
    std::ranges::stable_sort(others, {}, [&](std::size_t i) { return order(buffers[i]); });
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      Packer packer = base;
      for (const std::size_t buffer : others) packer.fit(buffer);
      const Packing& found = packer.packing();
      if (best.offsets.empty() || found.bytes < best.bytes) best = found;
      if (best.bytes == least) return best;
      // Whoever ends up on top of all chooses first in the next attempt.
      const auto top = std::ranges::find_if(
          others, [&](std::size_t i) { return found.offsets[i] + buffers[i].bytes == found.bytes; });
      if (top == others.end() || top == others.begin()) break;
      std::rotate(others.begin(), top, top + 1);
    }
  }
  return best;
}

std::size_t live_bytes(std::span<const Lifetime> buffers) {
  int end = 0;
  for (const Lifetime& life : buffers) end = std::max(end, life.last + 1);
  std::vector<std::ptrdiff_t> changes(static_cast<std::size_t>(end) + 1);  // by time
  for (const Lifetime& life : buffers) {
    if (!life.is_used()) continue;
    changes[life.first] += static_cast<std::ptrdiff_t>(life.bytes);
    changes[life.last + 1] -= static_cast<std::ptrdiff_t>(life.bytes);
  }
  std::ptrdiff_t live = 0;
  std::ptrdiff_t most = 0;
  for (const std::ptrdiff_t change : changes) most = std::max(most, live += change);
  return static_cast<std::size_t>(most);
}

}  // namespace rookery
