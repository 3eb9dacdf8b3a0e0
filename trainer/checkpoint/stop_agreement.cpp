#include "trainer/checkpoint/stop_agreement.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

// Between two exchanges of the Roots of several clusters: soon enough for whoever waits for the end.
constexpr double kExchangeSeconds = 0.25;

MessageKey agreement(std::int64_t steps, const char* what) {
  return {.kind = MessageKind::kAgreement, .step = steps, .edge = what};
}

}  // namespace

TensorView StopAgreement::PendingNumber::view() {
  return {{DType::kF64, Shape{1}}, reinterpret_cast<std::byte*>(&number)};
}

// "a wish to stop before step 2040", the last of the run.
StopAgreement::StopAgreement(Agreement agreed, std::int64_t steps, std::function<int()> signal,
                             std::function<std::int64_t(std::int64_t)> next_place)
    : agreement_(agreed),
      link_(agreed.link()),
      stage_(agreed.stage()),
      stages_(agreed.stages()),
      wish_key_(agreement(steps, "a wish to stop")),
      decision_key_(agreement(steps, "the decision to stop")),
      signal_(std::move(signal)),
      next_place_(std::move(next_place)),
      wishes_(static_cast<std::size_t>(stage_ == 0 ? stages_ - 1 : 1)) {
  if (stage_ != 0) {
    decision_.transfer = link_.begin_receive(0, decision_key_, decision_.view());
    return;
  }
  for (int from = 1; from < stages_; ++from) {
    PendingNumber& wish = wishes_[from - 1];
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
    return static_cast<int>(agreement_.told_by_root(step, what, number));
  };
  const int stage = told("the stage that was stopped", request_.stage);
  const int signal = told("the signal that stopped it", request_.signal);
  return StopRequest{stage, signal, told("the cluster of that stage", request_.cluster)};
}

void StopAgreement::decide(std::int64_t step) {
  if (last_step_) return;
  const bool is_alone = agreement_.roots() == nullptr;
  const std::optional<StopRequest> asked = is_alone ? request() : request_of_clusters(step);
  if (!asked) return;
  request_ = *asked;
  last_step_ = is_alone && stages_ == 1 ? step : next_place_(step);
  for (int to = 1; to < stages_; ++to)
    send_number(link_, to, decision_key_, static_cast<double>(*last_step_));
  link_.flush();
}

std::optional<StopRequest> StopAgreement::request() {
  if (const int signal = signal_(); signal != 0) return StopRequest{0, signal};
  for (int from = 1; from < stages_; ++from) {
    const PendingNumber& wish = wishes_[from - 1];
    if (!wish.transfer->test()) continue;
    if (!(wish.number >= 1 && wish.number < NSIG)) {
      throw TransportError(fmt::format("receive {} from stage {}: there is no signal {}",
                                       to_string(wish_key_), from, wish.number));
    }
    return StopRequest{from, static_cast<int>(wish.number)};
  }
  return std::nullopt;
}

// What the first cluster has been asked that has been asked at all. Cluster 0 says when they speak again.
std::optional<StopRequest> StopAgreement::request_of_clusters(std::int64_t step) {
  if (step < next_exchange_) return std::nullopt;
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - std::exchange(exchanged_, now)).count();
  const auto steps = static_cast<double>(step - std::exchange(exchanged_step_, step).value_or(step));
  const double ahead = std::clamp(steps * kExchangeSeconds / std::max(seconds, 1e-9), 1.0, 1e6);
  const StopRequest own = request().value_or(StopRequest());
  const auto all = agreement_.roots()->all_gather(
      step, "wishes to stop",
      {static_cast<double>(own.stage), static_cast<double>(own.signal), std::floor(ahead)});
  next_exchange_ = step + static_cast<std::int64_t>(all.front().back());
  for (std::size_t cluster = 0; cluster < all.size(); ++cluster) {
    const int signal = static_cast<int>(all[cluster][1]);
    if (signal != 0) return StopRequest{static_cast<int>(all[cluster][0]), signal, static_cast<int>(cluster)};
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
