// The SIMD loops of every instruction set that this processor has.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::kernel_tests {

inline void for_each_isa(const std::function<void()>& body) {
  for (const char* const* isa = simd::loop_names(); *isa != nullptr; ++isa) {
    ASSERT_TRUE(simd::select_loops(*isa));
    SCOPED_TRACE(*isa);
    body();
  }
  simd::select_loops(simd::loop_names()[0]);
}

}  // namespace rookery::kernel_tests
