#include "trainer/step_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/base/error.hpp"
#include "trainer/timer.hpp"

namespace rookery {

StepExchange::StepExchange(Executable& executable, Link& link, Clipping clipping, Averager* averager,
                           std::int64_t norm_every)
    : executable_(executable),
      link_(link),
      stage_(executable.stage()),
      clipping_(clipping),
      averager_(averager),
      norm_every_(norm_every) {}

void StepExchange::finish_gradients(std::int64_t step) {
  sum_shared_gradients(step);
  if (averager_ != nullptr && averager_->sums_gradients()) {
    executable_.finish_gradients();
    averager_->after_gradients(step);
  }
  const bool learns_norm = clipping_.norm && clipping_.is_of_all_stages;
  if (norm_is_due(step) && !learns_norm) tell_norm(step);
  if (clipping_.norm) clip_gradients(step);
}

// One parameter after the other: a stage that took all before it sent any could make stages that share
// several parameters wait for each other.
void StepExchange::sum_shared_gradients(std::int64_t step) {
  for (std::size_t i = 0; i < stage_.shared.size(); ++i) {
    const SharedParameter& shared = stage_.shared[i];
    const MessageKey key{
        .kind = MessageKind::kBackwardParameterGradient, .step = step, .edge = shared.parameter};
    if (shared.gradient_from != kNoStage) receive(shared.gradient_from, key, executable_.partial_sum(i));
    const ConstTensorView sum = executable_.sum_gradient(i);
    if (shared.gradient_to != kNoStage) link_.send(shared.gradient_to, key, HostTensor(sum).view());
  }
}

void StepExchange::clip_gradients(std::int64_t step) {
  constexpr double kEpsilon = 1e-6;  // PyTorch's
  const double squares = squared_norm(step);
  if (stage_.is_leaf() && norm_is_due(step) && clipping_.is_of_all_stages)
    squares_.push_back({.step = step, .parts = {squares}, .arriving = {}});
  const double factor = *clipping_.norm / (std::sqrt(squares) + kEpsilon);
  if (factor < 1 || std::isnan(factor)) executable_.scale_gradients(static_cast<float>(factor));
}

// The sum runs from the Leaf to the Root, parameter by parameter, so that every cut adds in the
// same order; and it comes by when the stages are done with their gradients, which is in that order.
double StepExchange::squared_norm(std::int64_t step) {
  if (!clipping_.is_of_all_stages) return executable_.add_squared_gradients(0);
  const MessageKey partial{.kind = MessageKind::kBackwardSquares, .step = step};
  const MessageKey whole{.kind = MessageKind::kForwardSquares, .step = step};
  const double later = stage_.is_leaf() ? 0 : receive_squares(stage_.index + 1, partial);
  const double sum = executable_.add_squared_gradients(later);
  if (!stage_.is_root()) {
    send_number(link_, stage_.index - 1, partial, sum);
    return receive_squares(0, whole);
  }
  for (int stage = 1; stage < stage_.count; ++stage) send_number(link_, stage, whole, sum);
  return sum;
}

void StepExchange::tell_norm(std::int64_t step) {
  const MessageKey key{.kind = MessageKind::kForwardOwnSquares, .step = step};
  const double own = executable_.add_squared_gradients(0);
  if (!stage_.is_leaf()) return send_number(link_, stage_.count - 1, key, own);
  Squares& squares = squares_.emplace_back(
      Squares{.step = step, .parts = std::vector<double>(stage_.count), .arriving = {}});
  squares.parts.back() = own;
  for (int stage = 0; stage + 1 < stage_.count; ++stage) {
    const TensorView part{{DType::kF64, {1}}, reinterpret_cast<std::byte*>(&squares.parts[stage])};
    squares.arriving.push_back(link_.begin_receive(stage, key, part));
  }
}

std::vector<GradientNorm> StepExchange::take_norms(bool all) {
  std::vector<GradientNorm> norms;
  while (!squares_.empty()) {
    const Squares& first = squares_.front();
    const bool are_here = std::ranges::all_of(first.arriving, [&](const auto& part) {
      if (all) part->wait();
      return all || part->test();
    });
    if (!are_here) break;
    norms.push_back({first.step, std::sqrt(std::accumulate(first.parts.begin(), first.parts.end(), 0.0))});
    squares_.pop_front();
  }
  return norms;
}

void StepExchange::spread_parameters(std::int64_t step) {
  for (std::size_t i = 0; i < stage_.shared.size(); ++i) {
    const SharedParameter& shared = stage_.shared[i];
    const MessageKey key{.kind = MessageKind::kForwardParameter, .step = step, .edge = shared.parameter};
    const TensorView value = executable_.shared_parameter(i);
    if (shared.from != kNoStage) receive(shared.from, key, value);
    if (shared.to != kNoStage) link_.send(shared.to, key, HostTensor(value).view());
  }
}

void StepExchange::receive(int from_stage, const MessageKey& key, TensorView into) {
  const Timer timer(waited_for(from_stage));
  write_from_host(into, [&](TensorView host) { link_.receive(from_stage, key, host); });
}

// Gradients that overflow make it infinite or no number, as in one process.
double StepExchange::receive_squares(int from_stage, const MessageKey& key) {
  const Timer timer(waited_for(from_stage));
  const double squares = receive_number(link_, from_stage, key);
  if (squares < 0) {
    throw TransportError(
        fmt::format("receive {} from stage {}: it is {}", to_string(key), from_stage, squares));
  }
  return squares;
}

}  // namespace rookery
