#include "trainer/stage_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
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
                                         int slots) {
  std::int64_t samples = 0;
  for (const std::int64_t size : sizes) samples += size;
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

// Samples whose largest output, the first of equals, is their label.
std::int64_t count_correct(std::span<const float> predictions, std::span<const std::int64_t> labels) {
  const std::size_t classes = predictions.size() / labels.size();
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto outputs = predictions.subspan(i * classes, classes);
    if (std::ranges::max_element(outputs) - outputs.begin() == labels[i]) ++correct;
  }
  return correct;
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

StageWorker::StageWorker(Executable& executable, Link& link, std::string schedule, FillInput fill_input,
                         std::optional<double> clip_gradient_norm)
    : executable_(executable),
      link_(link),
      stage_(executable.stage()),
      schedule_(std::move(schedule)),
      fill_input_(std::move(fill_input)),
      exchange_(executable, link, clip_gradient_norm) {
  make_schedule(schedule_, stage_.index, stage_.count, 1);
  observed_.labels = index_of(stage_.inputs, kLabels);
  observed_.sample_ids = index_of(stage_.inputs, kSampleIds);
  observed_.loss = index_of(stage_.outputs, kLoss);
  for (std::size_t i = 0; i < stage_.outputs.size(); ++i) {
    if (stage_.outputs[i].to.empty() && i != observed_.loss) observed_.prediction = i;
  }
  if (observed_.prediction) {
    const ValueId prediction = stage_.graph.at(stage_.outputs[*observed_.prediction].value);
    observed_.classes = stage_.graph.types(1).at(static_cast<std::size_t>(prediction)).shape.elements();
  }
}

BatchResult StageWorker::train(std::int64_t step, double learning_rate, std::span<const std::int64_t> sizes) {
  return with_context(fmt::format("stage {}: step {}", stage_.index, step), [&] {
    const Schedule schedule =
        make_schedule(schedule_, stage_.index, stage_.count, static_cast<int>(sizes.size()));
    auto micro_batches = micro_batches_of(Mode::kTraining, step, sizes, in_flight(schedule));
    const BatchResult result = run(schedule, micro_batches);
    exchange_.finish_gradients(step);
    {
      const Timer timer(times_.update);
      executable_.update(step, learning_rate);
    }
    exchange_.spread_parameters(step);
    return result;
  });
}

BatchResult StageWorker::validate(std::int64_t number, std::span<const std::int64_t> sizes) {
  return with_context(fmt::format("stage {}: validation batch {}", stage_.index, number), [&] {
    auto micro_batches = micro_batches_of(Mode::kInference, number, sizes, 1);
    return run(inference_schedule(static_cast<int>(sizes.size())), micro_batches);
  });
}

WorkTimes StageWorker::times() const {
  WorkTimes times = times_;
  times.waiting += exchange_.seconds_waiting();
  return times;
}

BatchResult StageWorker::run(const Schedule& schedule, std::vector<MicroBatch>& micro_batches) {
  BatchResult result;
  for (const MicroBatch& micro_batch : micro_batches) result.samples += micro_batch.size;
  for (const Action& action : schedule) {
    const MicroBatch& micro_batch = micro_batches.at(static_cast<std::size_t>(action.micro_batch));
    switch (action.kind) {
      case ActionKind::kForward:
        forward(micro_batch);
        observe(micro_batch, result.samples, result);
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
  times_.micro_batches += static_cast<std::int64_t>(micro_batches.size());
  return result;
}

void StageWorker::forward(const MicroBatch& micro_batch) {
  for (std::size_t i = 0; i < stage_.inputs.size(); ++i) {
    const StageInput& input = stage_.inputs[i];
    const TensorView into = executable_.input(i, micro_batch);
    if (input.from == kNoStage) {
      fill_input_(micro_batch, input.value, into);
    } else {
      receive(input.from, MessageKind::kForwardActivation, micro_batch, input.value, into);
    }
  }
  check_samples(micro_batch);
  {
    const Timer timer(times_.forward);
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

void StageWorker::check_samples(const MicroBatch& micro_batch) {
  if (observed_.sample_ids) {
    const TensorView ids = executable_.input(*observed_.sample_ids, micro_batch);
    sample_digest_ = digest(sample_digest_, ids.as<std::int64_t>());
  }
  if (!observed_.labels || !observed_.prediction) return;
  const TensorView labels = executable_.input(*observed_.labels, micro_batch);
  for (const std::int64_t label : labels.as<std::int64_t>()) {
    if (label < 0 || label >= observed_.classes) {
      throw DataError(fmt::format("a sample has label {}, but the model has {} outputs, for labels 0 to {}",
                                  label, observed_.classes, observed_.classes - 1));
    }
  }
}

void StageWorker::observe(const MicroBatch& micro_batch, std::int64_t batch_samples, BatchResult& result) {
  if (observed_.loss) {
    const double loss = executable_.output(*observed_.loss, micro_batch).as<float>().front();
    result.loss += loss * static_cast<double>(micro_batch.size) / static_cast<double>(batch_samples);
  }
  if (observed_.labels && observed_.prediction) {
    const TensorView labels = executable_.input(*observed_.labels, micro_batch);
    result.correct += count_correct(executable_.output(*observed_.prediction, micro_batch).as<float>(),
                                    std::as_const(labels).as<std::int64_t>());
  }
}

}  // namespace rookery
