// Whether two tensors have the same bits.
#pragma once

#include <algorithm>

#include "models/tensor/tensor.hpp"

namespace rookery {

// Of type and elements: a NaN is the same as itself, 0 is not -0. Both lie in the host's memory.
inline bool is_same(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::ranges::equal(a.view().bytes(), b.view().bytes());
}

}  // namespace rookery
