#include "clusterize/costs/stage_partition.hpp"

#include <algorithm>
#include <utility>

#include "models/base/check.hpp"

namespace rookery {
namespace {

template <typename T>
T between(const std::vector<T>& sums, int begin, int end) {
  return sums[end] - sums[begin];
}

WorkSums sums_of(const std::vector<SegmentWork>& segments) {
  WorkSums sums{.flops = {0}, .forward_flops = {0}, .update_flops = {0}};
  for (const SegmentWork& segment : segments) {
    sums.flops.push_back(sums.flops.back() + segment.forward_flops + segment.backward_flops);
    sums.forward_flops.push_back(sums.forward_flops.back() + segment.forward_flops);
    sums.update_flops.push_back(sums.update_flops.back() + segment.update_flops);
  }
  return sums;
}

}  // namespace

WorkSeconds work_seconds(const PartitionSums& sums, int first, int last, const CutMachine& machine) {
  const WorkSums& work = sums.work(machine.threads);
  const double forward = between(work.forward_flops, first, last);
  return {.forward = forward / machine.flops_per_second,
          .backward = (between(work.flops, first, last) - forward) / machine.flops_per_second,
          .update = between(work.update_flops, first, last) / machine.flops_per_second};
}

PartitionSums::PartitionSums(const ModelCosts& model)
    : costs(model), flops{0}, parameters{0}, round_bytes{0}, averaged{0} {
  work_[1] = sums_of(model.work(1));
  for (const auto& [threads, measured] : model.threads) work_[threads] = sums_of(measured.work);
  for (std::size_t i = 0; i < model.segments.size(); ++i) {
    const Segment& segment = model.segments[i];
    double least = kInfinite;
    for (const auto& [threads, work] : work_) least = std::min(least, work.flops[i + 1] - work.flops[i]);
    flops.push_back(flops.back() + least);
    parameters.push_back(parameters.back() + static_cast<double>(segment.parameters));
    round_bytes.push_back(round_bytes.back() +
                          model.averaging.bytes_per_byte * static_cast<double>(segment.parameter_bytes));
    averaged.push_back(averaged.back() + static_cast<double>(segment.parameters + segment.averaged_buffers));
  }
}

StagePartitioner::StagePartitioner(const PartitionSums& sums, int stages, Goal goal)
    : sums_(sums), stages_(stages), goal_(goal), is_synchronous_(is_synchronous(sums.costs.schedule)) {
  const ModelCosts& costs = sums.costs;
  ROOKERY_CHECK(stages >= 1 && stages <= costs.count(), "{} segments for {} machines", costs.count(), stages);
  for (int stage = 0; stage < stages; ++stage) {
    slots_.push_back(costs.slots(stage, stages));
    most_.push_back(costs.most_slots(stage, stages));
  }
  Cells nothing(static_cast<std::size_t>(costs.count()) + 1);
  nothing.front().labels.emplace_back();
  cells_.push_back(std::move(nothing));
}

void StagePartitioner::push(const CutMachine& machine, const CutWay& from_before,
                            std::optional<int> only_end) {
  const auto stage = static_cast<int>(machines_.size());
  const int count = sums_.costs.count();
  machines_.push_back(machine);
  work_.push_back(&sums_.work(machine.threads));
  way_ = from_before;
  Cells cells(static_cast<std::size_t>(count) + 1);
  const int rest = stages_ - 1 - stage;  // machines that follow need a segment each
  for (int end = rest == 0 ? count : stage + 1; end <= count - rest; ++end) {
    if (end == only_end.value_or(end)) extend(cells_.back(), end, cells[end]);
  }
  cells_.push_back(std::move(cells));
}

void StagePartitioner::pop() {
  machines_.pop_back();
  work_.pop_back();
  cells_.pop_back();
}

bool StagePartitioner::fits() const {
  return std::ranges::any_of(cells_.back(), [](const Cell& cell) { return !cell.labels.empty(); });
}

void StagePartitioner::extend(const Cells& before, int end, Cell& cell) const {
  const auto stage = static_cast<int>(machines_.size()) - 1;
  const ModelCosts& costs = sums_.costs;
  for (int begin = stage; begin < end; ++begin) {
    const Cell& front = before[begin];
    if (front.labels.empty()) continue;
    Part part{begin, end, costs.must_recompute};
    Label own = label_of(part);
    if (!is_of_use(front, part, own, cell)) continue;  // memory is dear to measure
    if (!fits(part)) {
      if (part.recompute || !costs.may_recompute) continue;
      part.recompute = true;
      if (!fits(part)) continue;
      own = label_of(part);
    }
    extend_by(front, part, std::move(own), cell);
  }
}

bool StagePartitioner::is_of_use(const Cell& before, const Part& part, const Label& own,
                                 const Cell& cell) const {
  if (cell.labels.empty()) return true;
  const int empty = empty_stages(before, part);
  if (empty != cell.empty) return empty < cell.empty;
  return std::ranges::any_of(before.labels, [&](const Label& front) {
    const Label label = joined(front, own);
    return std::ranges::none_of(cell.labels, [&](const Label& other) { return beats(other, label); });
  });
}

int StagePartitioner::empty_stages(const Cell& before, const Part& part) const {
  return before.empty + (between(sums_.parameters, part.begin, part.end) > 0 ? 0 : 1);
}

void StagePartitioner::extend_by(const Cell& before, const Part& part, Label own, Cell& cell) const {
  const int empty = empty_stages(before, part);
  if (!cell.labels.empty() && empty > cell.empty) return;
  if (empty < cell.empty) cell.labels.clear();
  cell.empty = empty;
  for (std::size_t i = 0; i < before.labels.size(); ++i) {
    own.before = static_cast<int>(i);
    add(cell, joined(before.labels[i], own));
  }
}

StagePartitioner::Label StagePartitioner::joined(const Label& front, const Label& own) const {
  Label label = own;
  label.sum += front.sum;
  label.period = std::max(front.period, own.period);
  label.update = std::max(front.update, own.update);
  label.load = std::max(front.load, own.load);
  if (is_synchronous_) return label;
  label.behind = front.behind;
  for (double& seconds : label.behind) seconds += own.sum;
  label.behind.push_back(own.behind.front());
  const int turning = slots_[machines_.size() - 1];
  for (std::size_t stage = 0; stage < label.behind.size(); ++stage)
    label.period = std::max(label.period, label.behind[stage] / (most_[stage] - turning + 1));
  return label;
}

// Or is as good; sums that differ only by their rounding are the same.
bool StagePartitioner::beats(const Label& a, const Label& b) const {
  constexpr double kRounding = 1 + 1e-12;
  return a.sum <= b.sum * kRounding && a.period <= b.period * kRounding && a.update <= b.update &&
         (goal_ == Goal::kStep || a.load <= b.load) &&
         std::ranges::equal(a.behind, b.behind,
                            [](double own, double other) { return own <= other * kRounding; });
}

bool StagePartitioner::fits(const Part& part) const {
  const double memory = machines_.back().memory_bytes;
  if (memory == kInfinite) return true;
  const std::int64_t bytes = sums_.costs.memory->bytes({.first = part.begin,
                                                        .last = part.end,
                                                        .slots = slots_[machines_.size() - 1],
                                                        .recompute = part.recompute,
                                                        .threads = machines_.back().threads});
  return static_cast<double>(bytes) <= memory;
}

// What the part adds: its work, and the transfers between it and the machine before.
StagePartitioner::Label StagePartitioner::label_of(const Part& part) const {
  const CutMachine& machine = machines_.back();
  const auto& segments = sums_.costs.segments;
  const WorkSums& of_machine = *work_.back();
  const double flops = between(of_machine.flops, part.begin, part.end) +
                       (part.recompute ? between(of_machine.forward_flops, part.begin, part.end) : 0);
  double in = 0;
  double out = 0;
  if (machines_.size() > 1) {
    const Segment& first = segments[part.begin];
    in += first.activation_bytes;
    out += first.gradient_bytes;
  }
  if (part.end < sums_.costs.count()) {
    in += segments[part.end].gradient_bytes;
    out += segments[part.end].activation_bytes;
  }
  const double work = flops / machine.flops_per_second + (in + out) * machine.seconds_per_byte;
  Label label{.sum = work,
              .period = work,
              .update = between(of_machine.update_flops, part.begin, part.end) / machine.flops_per_second *
                        sums_.costs.update_factor(static_cast<int>(machines_.size()) - 1, stages_),
              .load = between(sums_.round_bytes, part.begin, part.end) / machine.bytes_per_second,
              .begin = part.begin,
              .recompute = part.recompute};
  if (machines_.size() > 1) {
    const Segment& first = segments[part.begin];
    label.sum += 2 * way_.latency + (first.activation_bytes + first.gradient_bytes) / way_.bytes_per_second;
    label.period = std::max(label.period,
                            std::max(first.activation_bytes, first.gradient_bytes) / way_.bytes_per_second);
  }
  label.period = std::max(label.period, std::max(in, out) / machine.bytes_per_second);
  if (!is_synchronous_) {
    label.behind = {work + label.update / sums_.costs.micro_batches};
  } else if (sums_.costs.micro_batches == 1) {
    label.period = 0;  // nothing follows that could wait for it
  }
  return label;
}

void StagePartitioner::add(Cell& cell, const Label& label) const {
  if (step_seconds(label) >= limit_) return;
  for (const Label& other : cell.labels) {
    if (beats(other, label)) return;
  }
  std::erase_if(cell.labels, [&](const Label& other) { return beats(label, other); });
  cell.labels.push_back(label);
  if (cell.labels.size() <= kMostLabels) return;
  const auto least = std::ranges::max_element(
      cell.labels, {}, [&](const Label& other) { return step_seconds(other) + other.load; });
  cell.labels.erase(least);
}

double StagePartitioner::step_seconds(const Label& label) const {
  if (!is_synchronous_) return sums_.costs.micro_batches * label.period;
  const int most = most_.front();
  const bool waits = most < sums_.costs.micro_batches;  // for one of those in flight
  const double period = waits ? std::max(label.period, label.sum / most) : label.period;
  return label.sum + (sums_.costs.micro_batches - 1) * period + label.update;
}

double StagePartitioner::bound(double fastest, double together, double waiting) const {
  double least = kInfinite;
  const Cells& cells = cells_.back();
  for (std::size_t end = 0; end < cells.size(); ++end) {
    const double rest = sums_.flops.back() - sums_.flops[end];
    const double work = fastest > 0 ? rest / fastest : 0;
    const double period = together > 0 ? rest / together : 0;
    for (Label label : cells[end].labels) {
      label.sum += waiting + work;
      label.period = std::max(label.period, period);
      for (std::size_t stage = 0; stage < label.behind.size(); ++stage)  // turning at the last of all
        label.period = std::max(label.period, (label.behind[stage] + waiting + work) / most_[stage]);
      least = std::min(least, step_seconds(label));
    }
  }
  return least;
}

std::vector<StagePartition> StagePartitioner::cuts() const {
  const Cell& goal = cells_.back().back();
  std::vector<StagePartition> all;
  for (std::size_t label = 0; label < goal.labels.size(); ++label)
    all.push_back(trace(static_cast<int>(label)));
  std::ranges::stable_sort(
      all, {}, [](const StagePartition& cut) { return std::pair(cut.step_seconds, cut.load_seconds); });
  double least = kInfinite;
  std::erase_if(all, [&](const StagePartition& cut) {
    const bool beaten = cut.load_seconds >= least;
    least = std::min(least, cut.load_seconds);
    return beaten;
  });
  return all;
}

StagePartition StagePartitioner::trace(int label) const {
  const Label& last = cells_.back().back().labels[label];
  StagePartition cut{.empty_stages = cells_.back().back().empty,
                     .step_seconds = step_seconds(last),
                     .load_seconds = last.load};
  auto end = static_cast<std::size_t>(sums_.costs.count());
  for (std::size_t stage = cells_.size() - 1; stage > 0; --stage) {
    const Label& at = cells_[stage][end].labels[label];
    cut.begins.insert(cut.begins.begin(), at.begin);
    cut.recompute.insert(cut.recompute.begin(), at.recompute);
    end = static_cast<std::size_t>(at.begin);
    label = at.before;
  }
  return cut;
}

}  // namespace rookery
