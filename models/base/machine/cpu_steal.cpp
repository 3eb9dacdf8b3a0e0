#include "models/base/machine/cpu_steal.hpp"

#include <fstream>
#include <utility>

#include "models/base/libraries/format.hpp"

namespace rookery {

CpuSteal::CpuSteal(std::filesystem::path root) : root_(std::move(root)), begin_(read()) {}

double CpuSteal::share() const {
  const Ticks now = read();
  const double stolen = now.stolen - begin_.stolen;
  const double wanted = stolen + now.used - begin_.used;
  return stolen > 0 && wanted > 0 ? stolen / wanted : 0;
}

CpuSteal::Ticks CpuSteal::read() const {
  std::ifstream stat(root_ / "proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, waits = 0, interrupts = 0, soft_interrupts = 0, stolen = 0;
  stat >> name >> user >> nice >> system >> idle >> waits >> interrupts >> soft_interrupts >> stolen;
  if (!stat || name != "cpu") return {};
  return {.used = user + nice + system + interrupts + soft_interrupts, .stolen = stolen};
}

std::string cpu_steal_text(double share) {
  constexpr double kMuch = 0.05;
  if (share < kMuch) return {};
  return fmt::format(
      "the host of this virtual machine gave {:.0f} % of the processor time wanted here to others",
      100 * share);
}

}  // namespace rookery
