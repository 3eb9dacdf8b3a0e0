// The tensors that a stage and the other stages of its cluster send each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/stage.hpp"

namespace rookery {

// A tensor that a micro-batch, or the end of a step, brings or takes away.
struct Transfer {
  int peer = 0;  // stage
  bool is_sent = false;
  std::int64_t bytes = 0;
};

// With micro-batches of `micro_batch` samples. Two of each may be under way at a time: one is used while
// the next arrives.
std::vector<Transfer> transfers(const Stage& stage, std::int64_t micro_batch);
constexpr int kTransfersUnderWay = 2;

}  // namespace rookery
