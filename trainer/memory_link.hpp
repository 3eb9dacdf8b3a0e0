// Links between the members of a group whose members are threads of one process.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "trainer/link.hpp"

namespace rookery {

// One Link per rank, joined with each other; each may be used by its own thread. At most `max_messages` wait
// between two ranks. Groups know nothing of each other: one call makes one, with room and an end of its own.
std::vector<std::unique_ptr<Link>> make_memory_links(int ranks, std::chrono::milliseconds deadline,
                                                     std::size_t max_messages = 64);

}  // namespace rookery
