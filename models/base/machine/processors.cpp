#include "models/base/machine/processors.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <thread>

#include "models/base/machine/control_groups.hpp"

namespace rookery {
namespace {

int processors_of_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // More processors than the set has room for are an error.
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

// Of processor time in a period, both in microseconds: "cpu.max" has "200000 100000", or "max 100000".
struct Quota {
  std::optional<std::int64_t> time, period;
};

Quota quota_of(const ControlGroup& group) {
  if (group.version == 1)
    return {number_in(group.folder / "cpu.cfs_quota_us"), number_in(group.folder / "cpu.cfs_period_us")};
  std::ifstream file(group.folder / "cpu.max");
  std::int64_t time = 0;
  std::int64_t period = 0;
  if (!(file >> time >> period)) return {};
  return {time, period};
}

}  // namespace

int usable_processors(const std::filesystem::path& root) {
  std::int64_t processors = processors_of_affinity();
  for (const ControlGroup& group : control_groups("cpu", root)) {
    const Quota quota = quota_of(group);
    if (quota.time && quota.period && *quota.time > 0 && *quota.period > 0)
      processors = std::min(processors, (*quota.time + *quota.period - 1) / *quota.period);
  }
  return static_cast<int>(std::max<std::int64_t>(processors, 1));
}

int share_of_processors(int threads, int together, int processors) {
  if (together <= processors) return std::max(threads, 1);
  const std::int64_t share = std::int64_t{threads} * processors / together;
  return static_cast<int>(std::max<std::int64_t>(share, 1));
}

}  // namespace rookery
