#include "trainer/settings/checkpoint_interval.hpp"

#include <sstream>
#include <vector>

#include "models/base/check.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

struct UnitName {
  std::string pattern;
  std::string start;  // no other unit begins so
  CheckpointInterval::Unit unit;
  std::int64_t count;
};

const std::vector<UnitName>& unit_names() {
  using Unit = CheckpointInterval::Unit;
  static const std::vector<UnitName> names{{"s", "s", Unit::kSeconds, 1},
                                           {"min", "min", Unit::kSeconds, 60},
                                           {"h", "h", Unit::kSeconds, 3600},
                                           {"steps?", "step", Unit::kSteps, 1},
                                           {"epochs?", "epoch", Unit::kEpochs, 1}};
  return names;
}

}  // namespace

std::optional<CheckpointInterval> checkpoint_interval(const std::string& text) {
  if (text == "never") return std::nullopt;
  std::istringstream words(text);
  std::int64_t count = 0;
  std::string unit;
  words >> count >> unit;
  for (const UnitName& name : unit_names()) {
    if (unit == name.start || unit == name.start + "s")
      return CheckpointInterval{name.unit, count * name.count};
  }
  ROOKERY_CHECK(false, "checkpoint_every: {}", text);
}

std::string checkpoint_interval_pattern() {
  std::string units;
  for (const UnitName& name : unit_names()) units += (units.empty() ? "" : "|") + name.pattern;
  return fmt::format("^(never|[1-9][0-9]{{0,8}} ({}))$", units);
}

}  // namespace rookery
