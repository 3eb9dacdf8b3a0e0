// Says between which steps a run ends that is asked to stop: on all stages the same, so that what they write
// there is one checkpoint.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/agreement.hpp"
#include "trainer/link.hpp"

namespace rookery {

// The first that the Root has heard of.
struct StopRequest {
  int stage = 0;  // that was asked
  int signal = 0;
  int cluster = 0;  // of the stage
  bool operator==(const StopRequest&) const = default;
};

// For synchronous schedules. The Root decides. Between two steps a stage that was asked to stop tells it so;
// the Root, having been asked or told, tells all others that the run ends after the step that comes, and
// begins that step only when they have it. Nobody can have finished that step before the Root begins it, so
// that all find the message when they look for it there, and nobody ever waits for one: but for the Root's
// flush it costs a look at what has arrived.
//
// Where there are several clusters their Roots tell each other, a few times a second, what they have been
// asked; all of them then decide on the next place where the run may end. One thread.
class StopAgreement {
 public:
  // `steps` are those of the whole run; `signal` says which one has asked this stage to stop, 0: none;
  // `next_place` the next number of steps, above this one, after which it is asked again.
  StopAgreement(
      Agreement agreement, std::int64_t steps, std::function<int()> signal,
      std::function<std::int64_t(std::int64_t)> next_place = [](std::int64_t step) { return step + 1; });

  // Asked by every stage between the same steps, of which one is to come; the answer is the same on all.
  // Whether the run ends here, and why. Not after it was due.
  std::optional<StopRequest> is_due(std::int64_t step);

 private:
  // A number on its way, in memory that stays where it is.
  struct PendingNumber {
    double number = 0;
    std::unique_ptr<PendingTransfer> transfer;
    TensorView view();
  };

  void decide(std::int64_t step);
  std::optional<StopRequest> request();
  std::optional<StopRequest> request_of_clusters(std::int64_t step);
  void tell_wish();
  void hear_decision(std::int64_t step);

  Agreement agreement_;
  Link& link_;  // the agreement's
  const int stage_, stages_;
  const MessageKey wish_key_, decision_key_;
  const std::function<int()> signal_;
  const std::function<std::int64_t(std::int64_t)> next_place_;
  std::vector<PendingNumber> wishes_;      // the Root's: by stage, from stage 1 on; elsewhere the own one
  PendingNumber decision_;                 // of the others
  StopRequest request_;                    // the Root's, once it has decided
  std::optional<std::int64_t> last_step_;  // once known
  // Where several clusters' Roots tell each other: the step of the next time, and the time and step of the
  // last; nothing before the first.
  std::int64_t next_exchange_ = 0;
  std::chrono::steady_clock::time_point exchanged_ = std::chrono::steady_clock::now();
  std::optional<std::int64_t> exchanged_step_;
};

}  // namespace rookery
