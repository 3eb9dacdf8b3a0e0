// Averages parameters, or what has become of them, after every so many updates: modes parameters and diloco.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/averaging/host_numbers.hpp"
#include "trainer/averaging/weighted_averager.hpp"

namespace rookery {

// A tensor takes part in a round with its numbers, of which the mean is what all go on from. Or, where an
// outer optimizer or compression asks for it, with what has changed since an anchor, which is the same in all
// clusters: by the mean change the outer SGD moves the anchor, from which all go on; without an outer
// optimizer its rate is 1 and its momentum 0, which is the mean again.
//
// Where rounds overlap training they have copies of their own, and a tensor gets what the round has made of
// the numbers that went in, less these: what was trained meanwhile stays.
class PeriodicAverager final : public WeightedAverager {
 public:
  PeriodicAverager(AveragedRun run, Executable& executable, Rings& rings);
  ~PeriodicAverager() override { rings_.abandon(); }
  PeriodicAverager(const PeriodicAverager&) = delete;
  PeriodicAverager& operator=(const PeriodicAverager&) = delete;

  void after_update(std::int64_t step) override;
  std::map<std::string, TensorView> state() override;
  void begin(std::int64_t steps_done, std::int64_t steps_ahead) override;

 private:
  struct Averaged {
    std::string name;  // in training_state()
    int fragment = 0;
    std::span<float> residual = {};
    std::optional<Tensor> anchor = {}, momentum = {};
    std::optional<Tensor> sent = {}, before = {};  // where rounds overlap: in the round, and as it went in
  };
  // A round that was begun.
  struct Round {
    std::int64_t end = 0;    // steps done at which it is finished
    bool is_united = false;  // of all fragments; nothing is trained meanwhile
    HostNumbers host = {};   // of the tensors themselves, where rounds do not overlap
    std::vector<std::pair<Averaged*, std::span<float>>> sent = {};  // and where its numbers lie
  };

  bool overlaps() const { return schedule_.overlapped_updates() > 0; }
  Averaged make_averaged(const std::string& tensor, const std::string& name, const TensorType& type);
  // Begins the round of a fragment or, without one, of all.
  void begin_round(std::int64_t steps_done, std::optional<int> fragment);
  std::span<float> put_in(Averaged& averaged, TensorView tensor);
  void finish_round();
  void take_over(Averaged& averaged, std::span<float> sent, std::span<float> numbers) const;
  void step_outer(Averaged& averaged, std::span<float> change) const;

  double outer_rate_ = 1, outer_momentum_ = 0;
  std::map<int, std::vector<Averaged>> averaged_;  // by ring, in its order
  std::optional<Round> under_way_;
};

}  // namespace rookery
