// Sums the gradients of every step: mode gradients.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "trainer/averaging/host_numbers.hpp"
#include "trainer/averaging/weighted_averager.hpp"

namespace rookery {

// A gradient is a share of the joint batch's mean already; of buffers that training changes the mean is made
// here. With a synchronous schedule a round begins before the last gradients of the step are there, and takes
// them one by one as backward finishes them; not where they are in a device's memory.
class GradientAverager final : public WeightedAverager {
 public:
  GradientAverager(AveragedRun run, Executable& executable, Rings& rings);
  ~GradientAverager() override { rings_.abandon(); }
  GradientAverager(const GradientAverager&) = delete;
  GradientAverager& operator=(const GradientAverager&) = delete;

  bool sums_gradients() const override { return true; }
  void before_last_gradients(std::int64_t step) override;
  void after_gradient_of(const std::string& parameter) override;
  void after_gradients(std::int64_t step) override;

 private:
  using Place = std::pair<std::size_t, std::size_t>;  // ring, and tensor of it

  void begin_round(std::int64_t step, bool are_ready);

  bool begins_early_ = false;
  std::map<std::string, TensorView> state_;  // where it begins early: training_state()
  std::map<std::string, Place> places_;
  std::optional<HostNumbers> under_way_;  // the numbers of a round
  std::map<std::string, Place> awaited_;  // by it
};

}  // namespace rookery
