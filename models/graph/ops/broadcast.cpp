#include "models/graph/ops/broadcast.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {

Shape broadcast(const Shape& a, const Shape& b) {
  Shape result = a.rank() >= b.rank() ? a : b;
  for (int back = 1; back <= std::min(a.rank(), b.rank()); ++back) {
    if (a[-back] != b[-back] && a[-back] != 1 && b[-back] != 1) {
      throw ConfigError(fmt::format("{} and {} do not broadcast", a.to_string(), b.to_string()));
    }
    result[-back] = a[-back] == 1 ? b[-back] : a[-back];
  }
  return result;
}

}  // namespace rookery
