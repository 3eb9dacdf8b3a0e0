#include "models/base/check.hpp"

namespace rookery {

void fail_check(const char* file, int line, const char* condition, const std::string& message) {
  throw BugError(
      fmt::format("{}:{}: {} does not hold: {} (this is a bug in Rookery)", file, line, condition, message));
}

}  // namespace rookery
