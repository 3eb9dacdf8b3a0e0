// Says between which steps a run ends that is asked to stop: on all stages the same, so that what they write
// there is one checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/link.hpp"

namespace rookery {

// The first that the Root has heard of.
struct StopRequest {
  int stage = 0;  // that was asked
  int signal = 0;
  bool operator==(const StopRequest&) const = default;
};

// For synchronous schedules. The Root decides. Between two steps a stage that was asked to stop tells it so;
// the Root, having been asked or told, tells all others that the run ends after the step that comes, and
// begins that step only when they have it. Nobody can have finished that step before the Root begins it, so
// that all find the message when they look for it there, and nobody ever waits for one: but for the Root's
// flush it costs a look at what has arrived. One thread.
class StopAgreement {
 public:
  // The link outlives it. `steps` are those of the whole run; `signal` says which one has asked this stage to
  // stop, 0: none.
  StopAgreement(Link& link, int stage, int stages, std::int64_t steps, std::function<int()> signal);

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
  void tell_wish();
  void hear_decision(std::int64_t step);

  Link& link_;
  const int stage_, stages_;
  const MessageKey wish_key_, decision_key_;
  const std::function<int()> signal_;
  std::vector<PendingNumber> wishes_;      // the Root's: by stage, from stage 1 on; elsewhere the own one
  PendingNumber decision_;                 // of the others
  StopRequest request_;                    // the Root's, once it has decided
  std::optional<std::int64_t> last_step_;  // once known
};

}  // namespace rookery
