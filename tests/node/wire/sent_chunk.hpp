// What a stream has sent, at a time that does not pass.
#pragma once

#include <variant>

#include "node/wire/packets.hpp"
#include "node/wire/stream.hpp"

namespace rookery {

inline const Clock::time_point kNow{};

inline DataChunk header_of(const OutgoingChunk& chunk) {
  return std::get<DataChunk>(decode(chunk.header));
}

}  // namespace rookery
