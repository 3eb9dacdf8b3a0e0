// The common part of all ways of averaging: the weights of clusters, and error feedback of compression.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "models/tensor/tensor.hpp"
#include "trainer/averaging/averagers.hpp"

namespace rookery {

class WeightedAverager : public StatefulAverager {
 public:
  WeightedAverager(AveragedRun run, Executable& executable, Rings& rings);

  bool sums_gradients() const override { return false; }
  void before_last_gradients(std::int64_t /*step*/) override {}
  void after_gradient_of(const std::string& /*parameter*/) override {}
  void after_gradients(std::int64_t /*step*/) override {}
  void after_update(std::int64_t /*step*/) override {}
  bool is_united(std::int64_t steps) const override { return schedule_.is_united(scheduled(steps)); }
  std::int64_t united_after(std::int64_t steps) const override {
    return schedule_.united_after(scheduled(steps)) + steps_ahead_;
  }
  std::map<std::string, TensorView> state() override;
  void begin(std::int64_t steps_done, std::int64_t steps_ahead) override {
    first_step_ = steps_done;
    steps_ahead_ = steps_ahead;
  }

 protected:
  // The steps by which the schedule goes, of so many of the run.
  std::int64_t scheduled(std::int64_t steps) const { return steps - steps_ahead_; }
  // This cluster's part of all samples that were trained in the steps from `begin` to `end`.
  float weight(std::int64_t begin, std::int64_t end) const;
  // That of the steps since the last round of the fragment before this one.
  float weight_of_round(std::int64_t steps_done, int fragment) const;

  bool is_parameter(const std::string& tensor) const;
  // RingTensor::residual; of a buffer, and without compression, empty.
  std::span<float> residual_of(const std::string& tensor);

  const AveragedRun run_;
  Executable& executable_;
  Rings& rings_;
  const RoundSchedule schedule_;

 private:
  std::int64_t first_step_ = 0;
  std::int64_t steps_ahead_ = 0;
  std::map<std::string, Tensor> residuals_;  // by parameter
};

}  // namespace rookery
