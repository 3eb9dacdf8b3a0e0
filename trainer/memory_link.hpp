// Links between the stages of a pipeline whose stages are threads of one process.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "trainer/link.hpp"

namespace rookery {

// One Link per stage, joined with each other; each may be used by its own thread. At most
// `max_messages` wait between two stages.
std::vector<std::unique_ptr<Link>> make_memory_links(int stages, std::chrono::milliseconds deadline,
                                                     std::size_t max_messages = 64);

}  // namespace rookery
