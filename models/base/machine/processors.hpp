// The processors that this process may use.
#pragma once

#include <filesystem>

namespace rookery {

// Those of its affinity (sched_getaffinity(2), which taskset and Slurm set), or as many as the quotas of its
// control groups amount to, rounded up, whichever is less; at least 1. `root` is for tests: where /proc and
// /sys are looked for.
int usable_processors(const std::filesystem::path& root = "/");

// What one of several that share so many processors may use of its `threads`, all of which have `together`:
// as many where there are processors for them all, else its share of the processors; at least 1.
int share_of_processors(int threads, int together, int processors);

}  // namespace rookery
