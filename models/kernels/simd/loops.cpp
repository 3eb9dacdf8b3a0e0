// Chooses the loops for this processor.
#include "models/kernels/simd/loops/loops.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace rookery::simd {

namespace portable {
const Loops& table();
}
#ifdef ROOKERY_SIMD_X86
namespace x86_64_v3 {
const Loops& table();
}
namespace x86_64_v4 {
const Loops& table();
}
#endif

namespace {

struct Available {
  std::array<const Loops*, 3> tables{};
  std::array<const char*, 4> names{};
  std::size_t count = 0;

  void add(const Loops& table) {
    tables[count] = &table;
    names[count++] = table.name;
  }
};

const Available& available() {
  static const Available all = [] {
    Available found;
#ifdef ROOKERY_SIMD_X86
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
    if (v4) found.add(x86_64_v4::table());
    if (v3) found.add(x86_64_v3::table());
#endif
    found.add(portable::table());
    return found;
  }();
  return all;
}

const Loops*& selected() {
  static const Loops* current = available().tables[0];
  return current;
}

}  // namespace

const Loops& loops() {
  return *selected();
}

const char* const* loop_names() {
  return available().names.data();
}

bool select_loops(const char* name) {
  const auto& tables = available().tables;
  const auto* found = std::ranges::find_if(
      tables, [&](const Loops* table) { return table != nullptr && std::string_view(table->name) == name; });
  if (found == tables.end()) return false;
  selected() = *found;
  return true;
}

}  // namespace rookery::simd
