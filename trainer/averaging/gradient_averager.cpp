#include "trainer/averaging/gradient_averager.hpp"

#include <algorithm>
#include <vector>

namespace rookery {

GradientAverager::GradientAverager(AveragedRun run, Executable& executable, Rings& rings)
    : WeightedAverager(std::move(run), executable, rings) {
  for (std::size_t ring = 0; ring < rings_.members().size(); ++ring) {
    const std::vector<std::string>& tensors = rings_.members()[ring].tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) places_[tensors[i]] = {ring, i};
  }
  const auto state = executable_.training_state();
  begins_early_ = is_synchronous(run_.settings.schedule) && std::ranges::all_of(state, [](const auto& entry) {
                    return entry.second.device == nullptr;
                  });
  if (begins_early_) state_ = state;
}

void GradientAverager::before_last_gradients(std::int64_t step) {
  if (begins_early_) begin_round(step, false);
}

void GradientAverager::after_gradient_of(const std::string& parameter) {
  if (const auto place = awaited_.extract(parameter))
    rings_.announce(place.mapped().first, place.mapped().second);
}

void GradientAverager::after_gradients(std::int64_t step) {
  if (!under_way_) begin_round(step, true);
  for (const auto& [tensor, place] : std::exchange(awaited_, {})) rings_.announce(place.first, place.second);
  rings_.finish();
  under_way_->write_back();
  under_way_.reset();
}

void GradientAverager::begin_round(std::int64_t step, bool are_ready) {
  const float own = weight(step, step + 1);
  const auto state = begins_early_ ? state_ : executable_.training_state();
  HostNumbers& host = under_way_.emplace();
  if (!are_ready) awaited_ = places_;
  rings_.begin(step, [&](const RingMember& ring) {
    std::vector<RingTensor> tensors;
    for (const std::string& tensor : ring.tensors) {
      const bool has_gradient = is_parameter(tensor);
      tensors.push_back(
          {.numbers = host.of(has_gradient ? executable_.gradient_place(tensor) : state.at(tensor)),
           .residual = residual_of(tensor),
           .factor = has_gradient ? 1 : own,
           .is_ready = are_ready});
    }
    return tensors;
  });
}

}  // namespace rookery
