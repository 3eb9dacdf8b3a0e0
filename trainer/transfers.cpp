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

}  // namespace

std::vector<Transfer> transfers(const Stage& stage, std::int64_t micro_batch,
                                const ScheduleSettings& schedule, int micro_batches) {
  const std::vector<TensorType> types = stage.graph.types(micro_batch);
  std::vector<Transfer> found;
  const auto add = [&](int peer, const std::string& value, bool is_sent, bool of_step = false) {
    if (peer == kNoStage) return;
    const TensorType& type = types[stage.graph.at(value)];
    const bool is_ahead = !of_step || !is_synchronous(schedule);
    const int more = is_ahead ? further_ahead(schedule, stage.count, micro_batches,
                                              std::min(peer, stage.index), std::max(peer, stage.index))
                              : 0;
    found.push_back({.peer = peer,
                     .is_sent = is_sent,
                     .bytes = static_cast<std::int64_t>(type.bytes()),
                     .under_way = kAlways + more});
  };
  for (const StageInput& input : stage.inputs) {
    add(input.from, input.value, false);
    add(input.gradient_from, input.value, false);
    add(input.gradient_to, input.value, true);
  }
  for (const StageOutput& output : stage.outputs) {
    for (const int peer : output.to) add(peer, output.value, true);
    add(output.gradient_from, output.value, false);
  }
  for (const SharedParameter& shared : stage.shared) {
    add(shared.from, shared.parameter, false, true);
    add(shared.gradient_from, shared.parameter, false, true);
    add(shared.to, shared.parameter, true, true);
    add(shared.gradient_to, shared.parameter, true, true);
  }
  return found;
}

}  // namespace rookery
