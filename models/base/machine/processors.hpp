// The processors that this process may use.
#pragma once

#include <filesystem>

namespace rookery {

// Those of its affinity (sched_getaffinity(2), which taskset and Slurm set), or as many as the quotas of its
// control groups amount to, rounded up, whichever is less; at least 1. `root` is for tests: where /proc and
// /sys are looked for.
int usable_processors(const std::filesystem::path& root = "/");

// The threads that one of several processes runs that share so many processors, where it wants `threads` and
// all want `together`: as many where there are processors for all, else its share of these; at least 1.
int share_of_processors(int threads, int together, int processors);

}  // namespace rookery
