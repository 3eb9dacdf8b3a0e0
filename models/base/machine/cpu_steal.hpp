// Processor time that a virtual machine wanted and its host gave to others.
#pragma once

#include <filesystem>
#include <string>

namespace rookery {

// Since it was made: the share of the processor time wanted on this machine, by anybody, that was stolen
// ("steal" of /proc/stat, proc(5)). 0 on machines that are not virtual, and where the host does not say.
class CpuSteal {
 public:
  // `root` is for tests: where /proc is looked for.
  explicit CpuSteal(std::filesystem::path root = "/");
  double share() const;  // 0 to 1

 private:
  // The time of all processors since the machine was started, in the kernel's ticks.
  struct Ticks {
    double used = 0;
    double stolen = 0;
  };
  Ticks read() const;

  const std::filesystem::path root_;
  const Ticks begin_;
};

// A sentence about a share, without a full stop; empty where it disturbs little.
std::string cpu_steal_text(double share);

}  // namespace rookery
