#include "trainer/checkpoint/stop_agreement.hpp"

#include <fmt/format.h>

#include <csignal>
#include <utility>

#include "models/base/error.hpp"
#include "trainer/checkpoint/checkpoint_schedule.hpp"

namespace rookery {
namespace {

MessageKey agreement(std::int64_t steps, const char* what) {
  return {.kind = MessageKind::kAgreement, .step = steps, .edge = what};
}

}  // namespace

TensorView StopAgreement::PendingNumber::view() {
  return {{DType::kF64, Shape{1}}, reinterpret_cast<std::byte*>(&number)};
}

// "a wish to stop before step 2040", the last of the run.
StopAgreement::StopAgreement(Link& link, int stage, int stages, std::int64_t steps,
                             std::function<int()> signal)
    : link_(link),
      stage_(stage),
      stages_(stages),
      wish_key_(agreement(steps, "a wish to stop")),
      decision_key_(agreement(steps, "the decision to stop")),
      signal_(std::move(signal)),
      wishes_(static_cast<std::size_t>(stage == 0 ? stages - 1 : 1)) {
  if (stage_ != 0) {
    decision_.transfer = link_.begin_receive(0, decision_key_, decision_.view());
    return;
  }
  for (int from = 1; from < stages_; ++from) {
    PendingNumber& wish = wishes_[static_cast<std::size_t>(from - 1)];
    wish.transfer = link_.begin_receive(from, wish_key_, wish.view());
  }
}

std::optional<StopRequest> StopAgreement::is_due(std::int64_t step) {
  if (stage_ == 0) {
    decide(step);
  } else {
    tell_wish();
    hear_decision(step);
  }
  if (step != last_step_) return std::nullopt;
  const auto told = [&](const char* what, int number) {
    return static_cast<int>(told_by_root(link_, stage_, stages_, step, what, number));
  };
  const int stage = told("the stage that was stopped", request_.stage);
  return StopRequest{stage, told("the signal that stopped it", request_.signal)};
}

void StopAgreement::decide(std::int64_t step) {
  if (last_step_) return;
  const std::optional<StopRequest> asked = request();
  if (!asked) return;
  request_ = *asked;
  last_step_ = stages_ == 1 ? step : step + 1;
  for (int to = 1; to < stages_; ++to)
    send_number(link_, to, decision_key_, static_cast<double>(*last_step_));
  link_.flush();
}

std::optional<StopRequest> StopAgreement::request() {
  if (const int signal = signal_(); signal != 0) return StopRequest{0, signal};
  for (int from = 1; from < stages_; ++from) {
    const PendingNumber& wish = wishes_[static_cast<std::size_t>(from - 1)];
    if (!wish.transfer->test()) continue;
    if (!(wish.number >= 1 && wish.number < NSIG)) {
      throw TransportError(fmt::format("receive {} from stage {}: there is no signal {}",
                                       to_string(wish_key_), from, wish.number));
    }
    return StopRequest{from, static_cast<int>(wish.number)};
  }
  return std::nullopt;
}

void StopAgreement::tell_wish() {
  PendingNumber& wish = wishes_.front();
  if (wish.transfer) {
    wish.transfer->test();
  } else if (const int signal = signal_(); signal != 0) {
    wish.number = signal;
    wish.transfer = link_.begin_send(0, wish_key_, wish.view());
  }
}

void StopAgreement::hear_decision(std::int64_t step) {
  if (last_step_ || !decision_.transfer->test()) return;
  if (!(decision_.number >= static_cast<double>(step) &&
        decision_.number <= static_cast<double>(decision_key_.step))) {
    throw TransportError(fmt::format("receive {} from stage 0: after step {}, and this is step {} of {}",
                                     to_string(decision_key_), decision_.number, step, decision_key_.step));
  }
  last_step_ = static_cast<std::int64_t>(decision_.number);
}

}  // namespace rookery
