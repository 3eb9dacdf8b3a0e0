#include "trainer/averaging/periodic_averager.hpp"

#include <algorithm>

namespace rookery {

PeriodicAverager::PeriodicAverager(AveragedRun run, Executable& executable, Rings& rings)
    : WeightedAverager(std::move(run), executable, rings) {
  const AveragingSettings& averaging = run_.settings.averaging;
  if (averaging.mode == "diloco") {
    outer_rate_ = averaging.outer_learning_rate;
    outer_momentum_ = averaging.outer_momentum;
  }
  std::vector<std::string> optimizer_states;
  if (averaging.optimizer) optimizer_states = make_optimizer(run_.settings.optimizer)->state_names();
  const auto state = executable_.training_state();
  for (const RingMember& ring : rings_.members()) {
    std::vector<Averaged>& of_ring = averaged_[ring.id];
    for (const std::string& tensor : ring.tensors) {
      of_ring.push_back(make_averaged(tensor, tensor, state.at(tensor).type));
      if (!is_parameter(tensor)) continue;
      for (const std::string& optimizer_state : optimizer_states) {
        const std::string name = optimizer_key(optimizer_state, tensor);
        of_ring.push_back(make_averaged(tensor, name, state.at(name).type));
      }
    }
  }
}

// `name`: the tensor itself, or the optimizer's state of it.
PeriodicAverager::Averaged PeriodicAverager::make_averaged(const std::string& tensor, const std::string& name,
                                                           const TensorType& type) {
  const auto fragment = run_.fragments.find(tensor);
  Averaged made{.name = name, .fragment = fragment == run_.fragments.end() ? 0 : fragment->second};
  const bool is_diloco = run_.settings.averaging.mode == "diloco";
  if (name == tensor) made.residual = residual_of(tensor);
  if (name == tensor && is_parameter(tensor) && (is_diloco || !made.residual.empty()))
    made.anchor.emplace(type);
  if (made.anchor && is_diloco) made.momentum.emplace(type);
  if (overlaps()) {
    made.sent.emplace(type);
    made.before.emplace(type);
  }
  return made;
}

void PeriodicAverager::begin(std::int64_t steps_done, std::int64_t steps_ahead) {
  WeightedAverager::begin(steps_done, steps_ahead);
  const auto state = executable_.training_state();
  for (auto& [ring, of_ring] : averaged_) {
    for (Averaged& averaged : of_ring)
      if (averaged.anchor) copy(state.at(averaged.name), averaged.anchor->view());
  }
}

void PeriodicAverager::after_update(std::int64_t step) {
  const std::int64_t done = step + 1;
  const bool unites = is_united(done);
  if (under_way_ && (unites || done >= under_way_->end)) finish_round();
  if (unites) {
    begin_round(done, std::nullopt);
    finish_round();
  }
  for (int fragment = 0; fragment < schedule_.fragments(); ++fragment) {
    if (!schedule_.begins(scheduled(done), fragment)) continue;
    if (under_way_) finish_round();
    begin_round(done, fragment);
    if (!overlaps()) finish_round();
  }
}

std::map<std::string, TensorView> PeriodicAverager::state() {
  std::map<std::string, TensorView> state = WeightedAverager::state();
  for (auto& [ring, of_ring] : averaged_) {
    for (Averaged& averaged : of_ring)
      if (averaged.momentum)
        state.emplace(averaging_key("momentum", averaged.name), averaged.momentum->view());
  }
  return state;
}

void PeriodicAverager::begin_round(std::int64_t steps_done, std::optional<int> fragment) {
  const auto state = executable_.training_state();
  Round& round =
      under_way_.emplace(Round{.end = steps_done + schedule_.overlapped_updates(), .is_united = !fragment});
  std::map<int, std::vector<RingTensor>> tensors;
  for (auto& [ring, of_ring] : averaged_) {
    for (Averaged& averaged : of_ring) {
      if (fragment && averaged.fragment != *fragment) continue;
      round.sent.emplace_back(&averaged, put_in(averaged, state.at(averaged.name)));
      tensors[ring].push_back({.numbers = round.sent.back().second,
                               .residual = averaged.residual,
                               .factor = weight_of_round(steps_done, averaged.fragment)});
    }
  }
  // Rounds of different fragments may begin after the same step.
  const std::int64_t number = steps_done * schedule_.fragments() + fragment.value_or(0);
  rings_.begin(number, [&](const RingMember& ring) { return tensors[ring.id]; });
}

// Where what the tensor has for a round lies.
std::span<float> PeriodicAverager::put_in(Averaged& averaged, TensorView tensor) {
  if (overlaps()) {
    copy(std::as_const(tensor), averaged.before->view());
    copy(std::as_const(tensor), averaged.sent->view());
  }
  const std::span<float> sent = overlaps() ? averaged.sent->as<float>() : under_way_->host.of(tensor);
  if (averaged.anchor) {
    const auto anchor = averaged.anchor->as<float>();
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = anchor[i] - sent[i];
  }
  return sent;
}

void PeriodicAverager::finish_round() {
  rings_.finish();
  HostNumbers now;
  const auto state = executable_.training_state();
  for (const auto& [averaged, sent] : under_way_->sent)
    take_over(*averaged, sent, overlaps() ? now.of(state.at(averaged->name)) : sent);
  now.write_back();
  under_way_->host.write_back();
  under_way_.reset();
}

// `sent`: what the round has made of it; `numbers`: those that the tensor has now.
void PeriodicAverager::take_over(Averaged& averaged, std::span<float> sent, std::span<float> numbers) const {
  if (averaged.anchor) {
    step_outer(averaged, sent);
    sent = averaged.anchor->as<float>();
  }
  if (under_way_->is_united || !overlaps()) {
    if (sent.data() != numbers.data()) std::ranges::copy(sent, numbers.begin());
    return;
  }
  const auto before = averaged.before->as<float>();
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += sent[i] - before[i];
}

// SGD with Nesterov's momentum, as torch.optim.SGD has it; the mean of what clusters have changed is the
// gradient.
void PeriodicAverager::step_outer(Averaged& averaged, std::span<float> change) const {
  const auto rate = static_cast<float>(outer_rate_);
  const auto anchor = averaged.anchor->as<float>();
  if (!averaged.momentum) {
    for (std::size_t i = 0; i < change.size(); ++i) anchor[i] -= rate * change[i];
    return;
  }
  const auto kept = static_cast<float>(outer_momentum_);
  const auto momentum = averaged.momentum->as<float>();
  for (std::size_t i = 0; i < change.size(); ++i) {
    momentum[i] = kept * momentum[i] + change[i];
    anchor[i] -= rate * (change[i] + kept * momentum[i]);
  }
}

}  // namespace rookery
