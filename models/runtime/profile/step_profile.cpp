#include "models/runtime/profile/step_profile.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "models/base/rng.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/initialize.hpp"

namespace rookery {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Numbers of everyday size; whole ones are 0, an index that every table has.
Tensor made_up(const TensorType& type, const std::string& name) {
  Tensor tensor(type);
  std::ranges::fill(tensor.view().bytes(), std::byte{0});
  if (type.dtype == DType::kF32) {
    CounterRng random(rng_key(0, name), 0);
    for (float& value : tensor.as<float>()) value = random.next_float() - 0.5F;
  }
  return tensor;
}

// The numbers of positions that count for a loss, by the input that says them: those of all its targets.
std::map<std::string, std::int64_t> counted_positions(const Graph& graph, std::int64_t micro_batch) {
  const std::vector<TensorType> types = graph.types(micro_batch);
  std::map<std::string, std::int64_t> positions;
  for (const LossOp& loss : losses_of(graph))
    if (loss.counted) positions[*loss.counted] = types[graph.at(loss.target)].shape.elements();
  return positions;
}

}  // namespace

class StepProfiler::ProfiledStage {
 public:
  ProfiledStage(const Stage& stage, const CompileOptions& options)
      : micro_batch_{.index = options.accumulates() ? 1 : 0, .size = options.training_sizes.at(0)},
        executable_(stage, options, initial_state(stage.graph, options.seed)) {
    const auto type_of = [&](const std::string& value) {
      return stage.graph.types(micro_batch_.size).at(stage.graph.at(value));
    };
    const auto positions = counted_positions(stage.graph, micro_batch_.size);
    for (std::size_t i = 0; i < stage.inputs.size(); ++i) {
      const StageInput& input = stage.inputs[i];
      inputs_.emplace_back(made_up(type_of(input.value), input.value), i);
      if (const auto counted = positions.find(input.value); counted != positions.end())
        inputs_.back().first.as<std::int64_t>()[0] = counted->second;
      if (input.gradient_from != kNoStage)
        partial_gradients_.emplace_back(made_up(inputs_.back().first.type(), input.value), i);
    }
    for (std::size_t i = 0; i < stage.outputs.size(); ++i) {
      if (stage.outputs[i].gradient_from == kNoStage) continue;
      const std::string& value = stage.outputs[i].value;
      output_gradients_.emplace_back(made_up(type_of(value), value), i);
    }
  }

  // Seconds of the step without the rests, and of the update in it.
  std::pair<double, double> step(std::chrono::milliseconds rest) {
    for (const auto& [tensor, i] : inputs_) copy(tensor.view(), executable_.input(i, micro_batch_));
    std::this_thread::sleep_for(rest);
    const auto forward = Clock::now();
    executable_.forward(micro_batch_);
    const double forward_seconds = seconds_since(forward);
    for (const auto& [tensor, i] : output_gradients_)
      copy(tensor.view(), executable_.output_gradient(i, micro_batch_));
    for (const auto& [tensor, i] : partial_gradients_)
      copy(tensor.view(), executable_.partial_gradient(i, micro_batch_));
    std::this_thread::sleep_for(rest);
    const auto backward = Clock::now();
    executable_.backward_inputs(micro_batch_);
    executable_.backward_weights(micro_batch_);
    for (std::size_t i = 0; i < executable_.stage().shared.size(); ++i) executable_.sum_gradient(i);
    const auto update = Clock::now();
    executable_.update(micro_batch_.step++, 0);  // a rate of 0 leaves the weights at everyday size
    return {forward_seconds + seconds_since(backward), seconds_since(update)};
  }

  void time_ops() { executable_.time_ops(); }
  std::vector<OpTime> op_times() const { return executable_.op_times(); }

 private:
  // By their numbers among the stage's inputs or outputs.
  using Numbered = std::vector<std::pair<Tensor, std::size_t>>;

  MicroBatch micro_batch_;
  Executable executable_;
  Numbered inputs_, partial_gradients_, output_gradients_;
};

StepProfiler::StepProfiler(const Stage& stage, const CompileOptions& options, std::chrono::milliseconds rest)
    : stage_(std::make_unique<ProfiledStage>(stage, options)), rest_(rest) {
  stage_->step(rest_);  // the first one does not count
  stage_->time_ops();
}

StepProfiler::~StepProfiler() = default;

void StepProfiler::run(double seconds) {
  constexpr int kLeastSteps = 3;
  const auto begin = Clock::now();
  for (int steps = 0; steps < kLeastSteps || seconds_since(begin) < seconds; ++steps) {
    const auto [step, update] = stage_->step(rest_);
    sums_.seconds += step;
    sums_.update += update;
    ++sums_.steps;
  }
}

StepProfile StepProfiler::profile() const {
  StepProfile means = sums_;
  means.seconds /= sums_.steps;
  means.update /= sums_.steps;
  means.ops = stage_->op_times();
  for (OpTime& op : means.ops) op.seconds /= sums_.steps;
  return means;
}

}  // namespace rookery
