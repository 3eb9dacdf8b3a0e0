#include "trainer/transfers.hpp"

#include <algorithm>

namespace rookery {
namespace {

constexpr int kAlways = 2;

// By how many more micro-batches than usual the earlier of two stages runs ahead of the later one.
int further_ahead(const ScheduleSettings& schedule, int stages, int micro_batches, int earlier, int later) {
  ScheduleSettings usual = schedule;
  usual.in_flight.reset();
  usual.planned.clear();
  const auto ahead = [&](const ScheduleSettings& of) {
    return in_flight(of, earlier, stages, micro_batches) - in_flight(of, later, stages, micro_batches);
  };
  return std::max(0, ahead(schedule) - ahead(usual));
}

// Of what is sent before the end of a step.
int most_under_way(const ScheduleSettings& schedule, int stages, int micro_batches, int earlier, int later) {
  if (has_chunks(schedule)) return std::max(kAlways, in_flight(schedule, earlier, stages, micro_batches));
  return kAlways + further_ahead(schedule, stages, micro_batches, earlier, later);
}

}  // namespace

std::vector<Transfer> transfers(const Stage& stage, std::int64_t micro_batch,
                                const ScheduleSettings& schedule, int micro_batches,
                                const EdgeEncoding& encoding) {
  const std::vector<TensorType> types = stage.graph.types(micro_batch);
  std::vector<Transfer> found;
  enum class What : std::uint8_t { kActivation, kGradient, kParameter };
  const auto add = [&](int peer, const std::string& value, bool is_sent, What what) {
    if (peer == kNoStage) return;
    const TensorType& type = types[stage.graph.at(value)];
    const Hop hop{stage.index, peer};
    const TensorType sent = what == What::kActivation ? encoding.largest_activation_type(hop, value, type)
                            : what == What::kGradient ? encoding.gradient_type(hop, type)
                                                      : type;
    const bool keeps = what == What::kGradient && is_sent && encoding.feeds_back(hop, type);
    const bool of_step = what == What::kParameter;
    const bool is_ahead = !of_step || !is_synchronous(schedule);
    const auto [earlier, later] = std::minmax({peer, stage.index});
    const int under_way =
        is_ahead ? most_under_way(schedule, stage.count, micro_batches, earlier, later) : kAlways;
    found.push_back({.peer = peer,
                     .is_sent = is_sent,
                     .bytes = static_cast<std::int64_t>(sent.bytes()),
                     .is_encoded = sent != type,
                     .under_way = under_way,
                     .kept_bytes = keeps ? static_cast<std::int64_t>(type.bytes()) : 0});
  };
  for (const StageInput& input : stage.inputs) {
    add(input.from, input.value, false, What::kActivation);
    add(input.gradient_from, input.value, false, What::kGradient);
    add(input.gradient_to, input.value, true, What::kGradient);
  }
  for (const StageOutput& output : stage.outputs) {
    for (const int peer : output.to) add(peer, output.value, true, What::kActivation);
    add(output.gradient_from, output.value, false, What::kGradient);
  }
  for (const SharedParameter& shared : stage.shared) {
    for (const int peer : {shared.from, shared.gradient_from})
      add(peer, shared.parameter, false, What::kParameter);
    for (const int peer : {shared.to, shared.gradient_to})
      add(peer, shared.parameter, true, What::kParameter);
  }
  return found;
}

std::vector<std::int64_t> coding_buffers(const std::vector<Transfer>& transfers) {
  std::vector<std::int64_t> buffers;
  for (const bool is_sent : {true, false}) {
    std::int64_t largest = 0;
    for (const Transfer& transfer : transfers)
      if (transfer.is_encoded && transfer.is_sent == is_sent) largest = std::max(largest, transfer.bytes);
    if (largest > 0) buffers.push_back(largest);
  }
  return buffers;
}

}  // namespace rookery
