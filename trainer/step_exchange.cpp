#include "trainer/step_exchange.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/timer.hpp"

namespace rookery {
namespace {

const TensorType kSquaresType{DType::kI64, Shape{static_cast<std::int64_t>(ExactSum::kWords)}};

}  // namespace

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
  if (!wants_squares(step)) return;
  const ExactSum own = executable_.squared_gradients();
  const bool is_of_all = clipping_.norm && clipping_.is_of_all_stages;
  const int leaf = stage_.count - 1;
  for (int stage = 0; stage < stage_.count; ++stage) {
    const bool is_told = is_of_all || (norm_is_due(step) && stage == leaf);
    if (is_told && stage != stage_.index) send_squares(step, own, stage);
  }
  if (!is_of_all) {
    if (norm_is_due(step) && stage_.is_leaf()) telling_.push_back(receive_squares(step, own));
    if (clipping_.norm) {
      if (const auto factor = factor_by(own.value())) executable_.scale_gradients(*factor);
    }
    return;
  }
  const bool is_late = clipping_.may_be_late && !was_clipped_;
  late_ = receive_squares(step, own);
  if (is_late) return;
  if (const auto factor = take_late_factor()) executable_.scale_gradients(*factor);
}

std::optional<float> StepExchange::take_late_factor() {
  const Squares squares = std::move(late_.value());
  late_.reset();
  const double sum = sum_of(squares);
  if (stage_.is_leaf() && norm_is_due(squares.step)) norms_.push_back({squares.step, std::sqrt(sum)});
  const std::optional<float> factor = factor_by(sum);
  was_clipped_ = factor.has_value();
  return factor;
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

// Gradients that overflow make it no number.
std::optional<float> StepExchange::factor_by(double squares) {
  constexpr double kEpsilon = 1e-6;  // PyTorch's
  const double factor = *clipping_.norm / (std::sqrt(squares) + kEpsilon);
  if (factor < 1 || std::isnan(factor)) return static_cast<float>(factor);
  return std::nullopt;
}

void StepExchange::send_squares(std::int64_t step, const ExactSum& own, int to_stage) {
  const ExactSum::Words words = own.words();
  link_.send(to_stage, {.kind = MessageKind::kSquares, .step = step},
             {kSquaresType, reinterpret_cast<const std::byte*>(words.data())});
}

StepExchange::Squares StepExchange::receive_squares(std::int64_t step, const ExactSum& own) {
  Squares squares{.step = step, .own = own, .others = {}};
  for (int stage = 0; stage < stage_.count; ++stage) {
    if (stage == stage_.index) continue;
    Squares::Part& part = *squares.others.emplace_back(std::make_unique<Squares::Part>());
    part.stage = stage;
    part.arriving = link_.begin_receive(stage, {.kind = MessageKind::kSquares, .step = step},
                                        {kSquaresType, reinterpret_cast<std::byte*>(part.words.data())});
  }
  return squares;
}

double StepExchange::sum_of(const Squares& squares) {
  ExactSum sum = squares.own;
  for (const auto& part : squares.others) {
    const Timer timer(waited_for(part->stage));
    part->arriving->wait();
    const std::optional<ExactSum> other = ExactSum::from(part->words);
    if (!other) {
      const MessageKey key{.kind = MessageKind::kSquares, .step = squares.step};
      throw TransportError(
          fmt::format("receive {} from stage {}: it is no sum", to_string(key), part->stage));
    }
    sum.add(*other);
  }
  return sum.value();
}

std::vector<GradientNorm> StepExchange::take_norms(bool all) {
  while (!telling_.empty()) {
    const Squares& first = telling_.front();
    const auto is_here = [](const auto& part) { return part->arriving->test(); };
    if (!all && !std::ranges::all_of(first.others, is_here)) break;
    norms_.push_back({first.step, std::sqrt(sum_of(first))});
    telling_.pop_front();
  }
  return std::exchange(norms_, {});
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

}  // namespace rookery
