// Packs buffers whose lifetimes are known into little memory ("dynamic storage allocation").
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace rookery {

// A buffer that is alive at every moment from `first` to `last`. It takes no room when it has no bytes or
// no moment.
struct Lifetime {
  int first = std::numeric_limits<int>::max();
  int last = -1;
  std::size_t bytes = 0;

  void cover(int time) {
    first = std::min(first, time);
    last = std::max(last, time);
  }
  bool is_used() const { return bytes > 0 && first <= last; }
  bool meets(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

struct Packing {
  std::vector<std::size_t> offsets;  // by buffer
  std::size_t bytes = 0;             // past the last of them
  std::size_t fence = 0;             // the boundary that no buffer lies across
};

// Finds offsets such that buffers that are alive at the same time do not share memory. Those of `stacked` lie
// one behind the other from 0 to `fence`; the others lie wholly below or wholly above it, so that memory can
// be divided there into two. They are placed by first fit in several orders, of which the best counts.
Packing pack(std::span<const Lifetime> buffers, std::span<const std::size_t> stacked);

// Most bytes that are alive at one time: no packing takes less.
std::size_t live_bytes(std::span<const Lifetime> buffers);

}  // namespace rookery
