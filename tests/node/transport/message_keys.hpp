// What identifies the messages of these tests.
#pragma once

#include <cstdint>

#include "trainer/link.hpp"

namespace rookery {

inline MessageKey key(std::int64_t step) {
  return {.step = step, .edge = "x"};
}

}  // namespace rookery
