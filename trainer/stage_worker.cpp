#include "trainer/stage_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "models/base/error.hpp"
#include "models/graph/loss.hpp"
#include "trainer/timer.hpp"

namespace rookery {
namespace {

template <typename Port>
std::optional<std::size_t> index_of(const std::vector<Port>& ports, const std::string& value) {
  const auto found = std::ranges::find(ports, value, &Port::value);
  if (found == ports.end()) return std::nullopt;
  return static_cast<std::size_t>(found - ports.begin());
}

MessageKey key_of(MessageKind kind, const MicroBatch& micro_batch, const std::string& value) {
  return {.kind = kind,
          .validation = micro_batch.mode == Mode::kInference,
          .step = micro_batch.step,
          .micro_batch = micro_batch.index,
          .edge = value};
}

std::vector<MicroBatch> micro_batches_of(Mode mode, std::int64_t step, std::span<const std::int64_t> sizes,
                                         int slots, std::int64_t samples) {
  std::vector<MicroBatch> micro_batches;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const int index = static_cast<int>(i);
    const double share = static_cast<double>(sizes[i]) / static_cast<double>(samples);
    micro_batches.push_back({.mode = mode,
                             .step = step,
                             .index = index,
                             .size = sizes[i],
                             .slot = index % slots,
                             .loss_weight = static_cast<float>(share)});
  }
  return micro_batches;
}

std::int64_t sum_of(std::span<const std::int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

// FNV-1a, a 64-bit word at a time.
std::uint64_t digest(std::uint64_t before, std::span<const std::int64_t> ids) {
  constexpr std::uint64_t kBasis = 0xcbf29ce484222325ULL;
  constexpr std::uint64_t kPrime = 0x100000001b3ULL;
  std::uint64_t hash = before == 0 ? kBasis : before;
  for (const std::int64_t id : ids) hash = (hash ^ static_cast<std::uint64_t>(id)) * kPrime;
  return hash;
}

}  // namespace

void LossResult::add(const LossResult& other) {
  loss += other.loss;
  positions += other.positions;
  correct += other.correct;
}

std::optional<double> LossResult::accuracy() const {
  if (positions == 0) return std::nullopt;
  return 100.0 * static_cast<double>(correct) / static_cast<double>(positions);
}

void BatchResult::add(const BatchResult& other) {
  loss += other.loss;
  samples += other.samples;
  losses.resize(std::max(losses.size(), other.losses.size()));
  for (std::size_t i = 0; i < other.losses.size(); ++i) losses[i].add(other.losses[i]);
}

std::optional<double> BatchResult::accuracy() const {
  for (const LossResult& part : losses) {
    if (const auto accuracy = part.accuracy()) return accuracy;
  }
  return std::nullopt;
}

WorkTimes& WorkTimes::operator+=(const WorkTimes& other) {
  forward += other.forward;
  backward += other.backward;
  update += other.update;
  waiting += other.waiting;
  validation += other.validation;
  micro_batches += other.micro_batches;
  return *this;
}

WorkTimes WorkTimes::operator-(const WorkTimes& before) const {
  return {.forward = forward - before.forward,
          .backward = backward - before.backward,
          .update = update - before.update,
          .waiting = waiting - before.waiting,
          .validation = validation - before.validation,
          .micro_batches = micro_batches - before.micro_batches};
}

StageWorker::StageWorker(Executable& executable, Link& link, std::string schedule, FillInput fill_input,
                         std::optional<double> clip_gradient_norm)
    : executable_(executable),
      link_(link),
      stage_(executable.stage()),
      schedule_(std::move(schedule)),
      fill_input_(std::move(fill_input)),
      exchange_(executable, link, clip_gradient_norm) {
  make_schedule(schedule_, stage_.index, stage_.count, 1);
  sample_ids_ = index_of(stage_.inputs, kSampleIds);
  for (const LossOp& loss : losses_of(stage_.graph)) {
    observed_.push_back({.loss = index_of(stage_.outputs, loss.value).value(),
                         .hits = loss.hits ? index_of(stage_.outputs, *loss.hits) : std::nullopt,
                         .weight = loss.weight});
  }
}

BatchResult StageWorker::train(std::int64_t step, double learning_rate, std::span<const std::int64_t> sizes) {
  return with_context(fmt::format("stage {}: step {}", stage_.index, step), [&] {
    const Schedule schedule =
        make_schedule(schedule_, stage_.index, stage_.count, static_cast<int>(sizes.size()));
    const std::int64_t samples = sum_of(sizes);
    auto micro_batches = micro_batches_of(Mode::kTraining, step, sizes, in_flight(schedule), samples);
    BatchResult result = run(schedule, micro_batches, samples);
    times_.micro_batches += std::ssize(micro_batches);
    exchange_.finish_gradients(step);
    {
      const Timer timer(times_.update);
      executable_.update(step, learning_rate);
    }
    exchange_.spread_parameters(step);
    return result;
  });
}

BatchResult StageWorker::validate(std::int64_t number, std::span<const std::int64_t> sizes,
                                  std::int64_t samples) {
  return with_context(fmt::format("stage {}: validation batch {}", stage_.index, number), [&] {
    const std::int64_t all = std::max(samples, sum_of(sizes));
    auto micro_batches = micro_batches_of(Mode::kInference, number, sizes, 1, all);
    return run(inference_schedule(static_cast<int>(sizes.size())), micro_batches, all);
  });
}

WorkTimes StageWorker::times() const {
  WorkTimes times = times_;
  times.waiting += exchange_.seconds_waiting();
  return times;
}

BatchResult StageWorker::run(const Schedule& schedule, std::vector<MicroBatch>& micro_batches,
                             std::int64_t samples) {
  BatchResult result{.losses = std::vector<LossResult>(observed_.size())};
  for (const MicroBatch& micro_batch : micro_batches) result.samples += micro_batch.size;
  for (const Action& action : schedule) {
    const MicroBatch& micro_batch = micro_batches.at(static_cast<std::size_t>(action.micro_batch));
    switch (action.kind) {
      case ActionKind::kForward:
        forward(micro_batch);
        observe(micro_batch, samples, result);
        break;
      case ActionKind::kBackwardInputs:
        backward_inputs(micro_batch);
        break;
      case ActionKind::kBackwardWeights: {
        const Timer timer(times_.backward);
        executable_.backward_weights(micro_batch);
        break;
      }
    }
  }
  return result;
}

void StageWorker::forward(const MicroBatch& micro_batch) {
  for (std::size_t i = 0; i < stage_.inputs.size(); ++i) {
    const StageInput& input = stage_.inputs[i];
    const TensorView into = executable_.input(i, micro_batch);
    if (input.from == kNoStage) {
      const Timer timer(micro_batch.mode == Mode::kTraining ? times_.forward : times_.validation);
      fill_input_(micro_batch, input.value, into);
    } else {
      receive(input.from, MessageKind::kForwardActivation, micro_batch, input.value, into);
    }
  }
  digest_samples(micro_batch);
  {
    const Timer timer(micro_batch.mode == Mode::kTraining ? times_.forward : times_.validation);
    executable_.forward(micro_batch);
  }
  for (std::size_t i = 0; i < stage_.outputs.size(); ++i) {
    const StageOutput& output = stage_.outputs[i];
    const MessageKey key = key_of(MessageKind::kForwardActivation, micro_batch, output.value);
    for (const int to : output.to) link_.send(to, key, executable_.output(i, micro_batch));
  }
}

void StageWorker::backward_inputs(const MicroBatch& micro_batch) {
  constexpr MessageKind kKind = MessageKind::kBackwardGradient;
  for (std::size_t i = 0; i < stage_.outputs.size(); ++i) {
    const StageOutput& output = stage_.outputs[i];
    if (output.gradient_from == kNoStage) continue;
    receive(output.gradient_from, kKind, micro_batch, output.value,
            executable_.output_gradient(i, micro_batch));
  }
  for (std::size_t i = 0; i < stage_.inputs.size(); ++i) {
    const StageInput& input = stage_.inputs[i];
    if (input.gradient_from == kNoStage) continue;
    receive(input.gradient_from, kKind, micro_batch, input.value,
            executable_.partial_gradient(i, micro_batch));
  }
  {
    const Timer timer(times_.backward);
    executable_.backward_inputs(micro_batch);
  }
  for (std::size_t i = 0; i < stage_.inputs.size(); ++i) {
    const StageInput& input = stage_.inputs[i];
    if (input.gradient_to == kNoStage) continue;
    link_.send(input.gradient_to, key_of(kKind, micro_batch, input.value),
               executable_.input_gradient(i, micro_batch));
  }
}

void StageWorker::receive(int from_stage, MessageKind kind, const MicroBatch& micro_batch,
                          const std::string& value, TensorView into) {
  const Timer timer(times_.waiting);
  link_.receive(from_stage, key_of(kind, micro_batch, value), into);
}

void StageWorker::digest_samples(const MicroBatch& micro_batch) {
  if (!sample_ids_) return;
  const TensorView ids = executable_.input(*sample_ids_, micro_batch);
  sample_digest_ = digest(sample_digest_, ids.as<std::int64_t>());
}

void StageWorker::observe(const MicroBatch& micro_batch, std::int64_t samples, BatchResult& result) {
  const double share = static_cast<double>(micro_batch.size) / static_cast<double>(samples);
  for (std::size_t i = 0; i < observed_.size(); ++i) {
    const double loss =
        share * double{executable_.output(observed_[i].loss, micro_batch).as<float>().front()};
    LossResult part{.loss = loss};
    if (observed_[i].hits) {
      const auto hits = executable_.output(*observed_[i].hits, micro_batch).as<std::int64_t>();
      part.correct = hits[0];
      part.positions = hits[1];
    }
    result.losses[i].add(part);
    result.loss += observed_[i].weight * loss;
  }
}

}  // namespace rookery
