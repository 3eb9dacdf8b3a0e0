// That two state dicts have the same tensors, bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "models/graph/state/state_dict.hpp"

namespace rookery {

inline void expect_equal(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    ASSERT_EQ(tensor.type(), b.at(name).type()) << name;
    EXPECT_TRUE(std::ranges::equal(tensor.view().bytes(), b.at(name).view().bytes())) << name;
  }
}

}  // namespace rookery
