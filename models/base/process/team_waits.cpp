#include "models/base/process/team_waits.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace rookery {
namespace {

// Some 50 us: most ops that one thread computes alone take less, and the next shared one finds the team
// awake; messages take longer. With a fifth of it gpt-nano's step took a seventh longer, with thirty times as
// much none was faster (bench/more_threads.py).
constexpr const char* kSpins = "10000";

// False where the user has decided. LLVM's OpenMP waits for whole milliseconds or not at all.
bool set_spins() {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"})
    if (std::getenv(name) != nullptr) return false;
  return ::setenv("GOMP_SPINCOUNT", kSpins, 1) == 0 && ::setenv("KMP_BLOCKTIME", "0", 1) == 0;
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
