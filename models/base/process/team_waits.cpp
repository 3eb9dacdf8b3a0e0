#include "models/base/process/team_waits.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace rookery {
namespace {

// Some 10 us: shared work follows shared work sooner than that, and a message takes longer.
constexpr const char* kSpins = "2000";

// False where the user has decided.
bool set_spins() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return false;
  return ::setenv("GOMP_SPINCOUNT", kSpins, 1) == 0;
}

}  // namespace

void let_teams_sleep(char** argv) {
  if (!set_spins()) return;
  std::error_code code;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", code);
  if (!code) ::execv(program.c_str(), argv);
}

void let_teams_of_children_sleep() {
  set_spins();
}

}  // namespace rookery
