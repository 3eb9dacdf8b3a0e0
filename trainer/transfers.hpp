// The tensors that a stage and the other stages of its cluster send each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/stage.hpp"
#include "trainer/encoding/edge_encoding.hpp"
#include "trainer/schedule/schedule.hpp"

namespace rookery {

// A tensor that a micro-batch, or the end of a step, brings or takes away.
struct Transfer {
  int peer = 0;  // stage
  bool is_sent = false;
  std::int64_t bytes = 0;  // as it travels, at most
  bool is_encoded = false;
  int under_way = 0;            // that may be, at a time
  std::int64_t kept_bytes = 0;  // of what encoding loses of it, for the next one
};

// With micro-batches of `micro_batch` samples, as many as `micro_batches` a batch. Two of each may be under
// way: one is used while the next arrives; and of what is sent before the end of a step one more for each
// micro-batch by which the earlier stage runs further ahead of the later one than without what settings or a
// plan say of it. Where machines have several stages it is as many as the earlier stage has in flight, if
// that is more than two: no more can be under way, so that no stage waits for room, in whatever order a
// machine comes to what has arrived.
std::vector<Transfer> transfers(const Stage& stage, std::int64_t micro_batch,
                                const ScheduleSettings& schedule = {}, int micro_batches = 1,
                                const EdgeEncoding& encoding = {});
// The bytes of what CompressedLink holds besides: the largest tensor that it encodes, and the largest that it
// decodes; none where there is none.
std::vector<std::int64_t> coding_buffers(const std::vector<Transfer>& transfers);

}  // namespace rookery
