// Reading at a place of a descriptor, for the files of this module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rookery {

// Fills `into` from `offset` on; DataError naming `name` when that fails or the file ends before.
void read_at(int descriptor, std::uint64_t offset, std::span<std::byte> into, const std::string& name);

}  // namespace rookery
