#include "trainer/averaging/round_schedule.hpp"

#include <algorithm>
#include <numeric>

namespace rookery {
namespace {

// Those that overlap between two that are waited for: so these cost little, and a checkpoint comes soon.
constexpr std::int64_t kStreamedRounds = 8;

// The steps of as many whole epochs as have this many.
std::int64_t epochs_of(std::int64_t steps, std::int64_t steps_per_epoch) {
  return (steps + steps_per_epoch - 1) / steps_per_epoch * steps_per_epoch;
}

}  // namespace

RoundSchedule::RoundSchedule(const TrainingSettings& settings, std::int64_t steps_per_epoch, bool validates)
    : fragments_(settings.averaging.fragments),
      overlap_(settings.averaging.overlapped_updates()),
      every_(settings.averaging.updates_between_rounds(steps_per_epoch)),
      united_every_(streams() ? epochs_of(kStreamedRounds * every_, steps_per_epoch) : every_),
      validation_every_(validates ? settings.validate_every * steps_per_epoch : 0),
      steps_(settings.epochs * steps_per_epoch) {}

bool RoundSchedule::is_united(std::int64_t steps_done) const {
  if (steps_done <= 0) return false;
  if (steps_done % united_every_ == 0 || steps_done == steps_) return true;
  return validation_every_ > 0 && steps_done % validation_every_ == 0;
}

std::int64_t RoundSchedule::united_after(std::int64_t steps_done) const {
  const auto multiple_after = [&](std::int64_t of) { return (steps_done / of + 1) * of; };
  std::int64_t next = multiple_after(united_every_);
  if (validation_every_ > 0) next = std::min(next, multiple_after(validation_every_));
  return steps_done < steps_ ? std::min(next, steps_) : next;
}

bool RoundSchedule::begins(std::int64_t steps_done, int fragment) const {
  if (!streams() || steps_done <= 0 || is_united(steps_done)) return false;
  return steps_done % every_ == place(fragment);
}

std::int64_t RoundSchedule::last_united_before(std::int64_t steps_done) const {
  const auto multiple_before = [&](std::int64_t of) { return (steps_done - 1) / of * of; };
  std::int64_t last = multiple_before(united_every_);
  if (validation_every_ > 0) last = std::max(last, multiple_before(validation_every_));
  return last;
}

std::int64_t RoundSchedule::last_before(std::int64_t steps_done, int fragment) const {
  if (steps_done <= 0) return 0;
  const std::int64_t last = last_united_before(steps_done);
  const std::int64_t since = steps_done - 1 - place(fragment);
  if (!streams() || since < 0) return last;
  return std::max(last, since / every_ * every_ + place(fragment));
}

// Those of every so many steps, less those that fall together with others.
RoundRate RoundSchedule::rate() const {
  const auto share = [](std::int64_t every) { return 1 / static_cast<double>(every); };
  // Of the steps of a fragment that are multiples of a period; those of united_every_ and of validations.
  const auto together = [&](int fragment, std::int64_t period) {
    return place(fragment) % std::gcd(every_, period) == 0 ? share(std::lcm(every_, period)) : 0;
  };
  const bool validates = validation_every_ > 0;
  const std::int64_t both = validates ? std::lcm(united_every_, validation_every_) : 0;
  RoundRate rate{.waited = share(united_every_), .fragments = fragments_};
  if (validates) rate.waited += share(validation_every_) - share(both);
  // A stage has one round under way.
  rate.steps_beside =
      std::min(static_cast<double>(overlap_), static_cast<double>(every_) / static_cast<double>(fragments_));
  for (int fragment = 0; fragment < fragments_ && streams(); ++fragment) {
    double begins = share(every_) - together(fragment, united_every_);
    if (validates) begins -= together(fragment, validation_every_) - together(fragment, both);
    rate.overlapped += begins / static_cast<double>(fragments_);
  }
  return rate;
}

}  // namespace rookery
