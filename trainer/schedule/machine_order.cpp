#include "trainer/schedule/machine_order.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "models/base/check.hpp"

namespace rookery {
namespace {

struct ChunkAction {
  ActionKind kind = ActionKind::kForward;
  int chunk = 0;  // of the machine
};

// The order of a machine as it grows. The micro-batches of each kind and chunk follow from that: they rise.
class OrderBuilder {
 public:
  OrderBuilder(const StagePlacement& placement, int machine, int micro_batches)
      : placement_(placement),
        machine_(machine),
        micro_batches_(micro_batches),
        done_(static_cast<std::size_t>(placement.chunks)) {
    order_.reserve(3 * done_.size() * static_cast<std::size_t>(micro_batches));
  }

  // What is of micro-batches that the batch has not is left out.
  void add(ChunkAction action) {
    Done& done = done_[static_cast<std::size_t>(action.chunk)];
    int& count = action.kind == ActionKind::kForward          ? done.forwards
                 : action.kind == ActionKind::kBackwardInputs ? done.inputs
                                                              : done.weights;
    const int micro_batch = count++;
    if (micro_batch < micro_batches_)
      order_.push_back({placement_.stage_of(machine_, action.chunk), action.kind, micro_batch});
  }

  void add(int times, std::initializer_list<ChunkAction> actions) {
    for (int i = 0; i < times; ++i)
      for (const ChunkAction& action : actions) add(action);
  }

  std::vector<StageAction> take() { return std::move(order_); }

 private:
  struct Done {
    int forwards = 0;
    int inputs = 0;
    int weights = 0;
  };

  const StagePlacement placement_;
  const int machine_;
  const int micro_batches_;
  std::vector<Done> done_;  // by chunk
  std::vector<StageAction> order_;
};

// The machines whose order a machine keeps to, and its place among them.
struct Row {
  int machines;
  int machine;
};

// The shortest whose first machine has as many in flight as planned, two for each of its machines. From the
// last machine of a row back to its first there is a way, too, where chunks go round.
Row row_of(const ScheduleSettings& settings, const StagePlacement& placement, int machine) {
  const int machines = placement.machines;
  if (settings.planned.empty() || machines == 1) return {machines, machine};
  const int wanted = (settings.planned.front() + 1) / 2;
  const int hops = placement.turns_back ? machines - 1 : machines;
  const int past_hops = machines - hops;
  const int hop = std::max(1, (wanted - past_hops + hops - 1) / hops);
  return {hop * hops + past_hops, hop * machine};
}

// Forwards go in groups of as many micro-batches as there are machines, a whole group through one chunk, then
// through the next, so that a group comes round when the last of it has been sent off; backwards likewise,
// the last chunk first. The first gradient reaches a machine when the first group has gone through all its
// chunks but the last, and a micro-batch from there to the last machine and back.
//
// A last group that is smaller has the order that its micro-batches have in a whole one: it waits a little,
// but no batch needs more memory than a larger one.
void add_interleaved(const Row& row, int chunks, int micro_batches, OrderBuilder& order) {
  const int group = row.machines * chunks;  // forwards
  const int all = (micro_batches + row.machines - 1) / row.machines * group;
  const int ahead = (chunks - 1) * row.machines + 2 * (row.machines - 1 - row.machine);
  const auto chunk_of = [&](int forward) { return forward % group / row.machines; };
  int forward = 0;
  for (int backward = 0; backward < all; ++backward) {
    while (forward < std::min(all, backward + 1 + ahead))
      order.add({ActionKind::kForward, chunk_of(forward++)});
    const int chunk = chunks - 1 - chunk_of(backward);
    order.add({ActionKind::kBackwardInputs, chunk});
    order.add({ActionKind::kBackwardWeights, chunk});
  }
}

// Chunk 0 leads away from the first machine, chunk 1 back to it. Where every action takes a unit of time,
// machine m of P can run its first F of chunk 0 at m, of chunk 1 at 2P − 1 − m, and its first B of chunk 1 at
// 2P + m. Forwards fill the time until then: 2P − 1 that it keeps, so that one more is always allowed. Then
// what comes back through chunk 1 is done with at once, until gradients come through chunk 0; from there on
// all actions take turns. When no forwards are left gradients go on before all else, and each W that was put
// off for them, which nobody waits for, comes at the end.
//
// A batch that is too short for that has the order that its micro-batches have in a longer one.
void add_zbv(const Row& row, int micro_batches, OrderBuilder& order) {
  constexpr ChunkAction kF0{ActionKind::kForward, 0};
  constexpr ChunkAction kF1{ActionKind::kForward, 1};
  constexpr ChunkAction kB0{ActionKind::kBackwardInputs, 0};
  constexpr ChunkAction kB1{ActionKind::kBackwardInputs, 1};
  constexpr ChunkAction kW0{ActionKind::kBackwardWeights, 0};
  constexpr ChunkAction kW1{ActionKind::kBackwardWeights, 1};
  const int before = row.machine;
  const int from_here = row.machines - row.machine;
  const int filling = row.machines + from_here - 1;  // F of chunk 0 before the first B of it
  const int whole = std::max(micro_batches, 2 * row.machines - 1);
  order.add(2 * from_here - 1, {kF0});
  order.add(before, {kF1, kF0});
  order.add(from_here, {kF1, kB1, kW1});
  order.add(whole - filling, {kF0, kB0, kW0, kF1, kB1, kW1});
  order.add(from_here - 1, {kB0, kW0, kF1, kB1, kW1});
  order.add(before, {kB0, kB1});
  order.add(from_here, {kB0, kW0});
  order.add(before, {kW1});
  order.add(before, {kW0});
}

}  // namespace

StagePlacement placement_on(const ScheduleSettings& settings, int machines) {
  ROOKERY_CHECK(machines >= 1, "{} machines", machines);
  const int chunks = chunks_of(settings);
  if (machines == 1 || chunks == 1) return {.machines = machines};
  return {.machines = machines, .chunks = chunks, .turns_back = chunks_turn_back(settings)};
}

StagePlacement placement_of(const ScheduleSettings& settings, int stages) {
  const int chunks = chunks_of(settings);
  ROOKERY_CHECK(stages >= 1 && stages_within(settings, stages) == stages,
                "{} stages, {} on each of several machines", stages, chunks);
  return placement_on(settings, stages == 1 ? 1 : stages / chunks);
}

int stages_within(const ScheduleSettings& settings, int most) {
  return placement_on(settings, std::max(1, most / chunks_of(settings))).stages();
}

std::vector<StageAction> machine_order(const ScheduleSettings& settings, int machine, int stages,
                                       int micro_batches) {
  const StagePlacement placement = placement_of(settings, stages);
  ROOKERY_CHECK(has_chunks(settings), "schedule {} has no chunks", settings.name);
  ROOKERY_CHECK(0 <= machine && machine < placement.machines, "machine {} of {}", machine,
                placement.machines);
  ROOKERY_CHECK(micro_batches >= 1, "{} micro-batches", micro_batches);
  const Row row = row_of(settings, placement, machine);
  OrderBuilder order(placement, machine, micro_batches);
  if (placement.turns_back) {
    add_zbv(row, micro_batches, order);
  } else {
    add_interleaved(row, placement.chunks, micro_batches, order);
  }
  return order.take();
}

std::vector<std::vector<int>> possible_in_flight(ScheduleSettings settings, int stages, int micro_batches) {
  const int most = std::min(micro_batches, settings.in_flight.value_or(micro_batches));
  const auto numbers = [&] {
    std::vector<int> by_stage;
    for (int stage = 0; stage < stages; ++stage)
      by_stage.push_back(in_flight(settings, stage, stages, micro_batches));
    return by_stage;
  };
  settings.planned.clear();
  std::vector<std::vector<int>> all{numbers()};
  while (all.back().front() < most) {
    const int before = all.back().front();
    settings.planned.assign(static_cast<std::size_t>(stages), std::max(before + 1, before * 5 / 4));
    std::vector<int> next = numbers();
    if (next.front() > most || next.front() == before) break;  // one machine has nothing to choose
    all.push_back(std::move(next));
  }
  return all;
}

}  // namespace rookery
