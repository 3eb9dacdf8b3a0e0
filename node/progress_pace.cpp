#include "node/progress_pace.hpp"

#include <utility>

namespace rookery {

bool LinePace::is_due(const Progress& progress, PaceTime now) {
  if (!told_) told_ = now;
  if (progress.step >= progress.steps) return false;
  const std::int64_t tenth = 10 * progress.step / progress.steps;
  const bool is_next = std::exchange(tenth_, tenth) != tenth;
  return is_next || is_overdue(now);
}

bool EventPace::is_due(const Progress& progress, PaceTime now) {
  const bool is_last = progress.step >= progress.steps;
  if (!is_last && told_ && now - *told_ < interval_) return false;
  told_ = now;
  return true;
}

}  // namespace rookery
