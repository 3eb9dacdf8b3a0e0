#include "clusterize/inner_cut.hpp"

#include <algorithm>
#include <utility>

#include "models/base/check.hpp"
#include "trainer/schedule/schedule.hpp"

namespace rookery {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// One cut's worth of tables. Stage k of the row holds segments [begin, end).
class Cutter {
 public:
  Cutter(const ModelCosts& costs, const std::vector<CutMachine>& machines)
      : costs_(costs), machines_(machines), stages_(static_cast<int>(machines.size())) {
    seconds_.push_back(0);
    parameters_.push_back(0);
    for (const Segment& segment : costs.segments) {
      flops_.push_back(flops_.back() + segment.forward_flops + segment.backward_flops);
      seconds_.push_back(seconds_.back() + 2 * kSecondsPerOp * segment.ops);
      parameters_.push_back(parameters_.back() + segment.parameters);
    }
    for (int stage = 0; stage < stages_; ++stage)
      slots_.push_back(in_flight(make_schedule(costs.schedule, stage, stages_, costs.micro_batches)));
  }

  // The smallest (empty stages, bottleneck) first; then, among all cuts that reach both, the
  // smallest sum of transfers. A sum and a maximum can't be minimised in one pass: what is best for
  // the front part may be hidden by the maximum of the rear.
  std::optional<InnerCut> best() {
    const auto widest = [](double so_far, double stage) { return std::max(so_far, stage); };
    const Table bottleneck = solve(kNever, &Cutter::slowest, widest);
    const Cell& goal = bottleneck.back().back();
    if (goal.cost == kNever) return std::nullopt;
    const Table transfer = solve(goal.cost, &Cutter::transfer, std::plus<>());
    InnerCut cut{
        .empty_stages = goal.empty, .bottleneck = goal.cost, .transfer = transfer.back().back().cost};
    int end = costs_.count();
    for (int stage = stages_; stage-- > 0;) {
      end = transfer[static_cast<std::size_t>(stage)][static_cast<std::size_t>(end)].begin;
      cut.begins.insert(cut.begins.begin(), end);
    }
    return cut;
  }

 private:
  // The best way to put segments [0, end) on stages 0 … stage.
  struct Cell {
    int empty = 0;
    double cost = kNever;
    int begin = -1;  // of the last of these stages
  };
  using Table = std::vector<std::vector<Cell>>;  // [stage][end]

  double work(int stage, int begin, int end) const {
    return (at(flops_, end) - at(flops_, begin)) / machine(stage).flops_per_second + at(seconds_, end) -
           at(seconds_, begin);
  }
  // Of the boundary behind the stage, the slower direction.
  double transfer(int stage, int /*begin*/, int end) const {
    if (stage == stages_ - 1) return 0;
    const Segment& next = costs_.segments[static_cast<std::size_t>(end)];
    return std::max(next.activation_bytes, next.gradient_bytes) / machine(stage).next_bytes_per_second;
  }
  double slowest(int stage, int begin, int end) const {
    return std::max(work(stage, begin, end), transfer(stage, begin, end));
  }
  bool fits(int stage, int begin, int end) const {
    const double memory = machine(stage).memory_bytes;
    return memory == kNever ||
           static_cast<double>(costs_.memory(begin, end, slots_[static_cast<std::size_t>(stage)])) <= memory;
  }

  template <typename Combine>
  Table solve(double limit, double (Cutter::*cost)(int, int, int) const, Combine combine) const {
    const int count = costs_.count();
    Table table(static_cast<std::size_t>(stages_), std::vector<Cell>(static_cast<std::size_t>(count) + 1));
    for (int stage = 0; stage < stages_; ++stage) {
      const int rest = stages_ - 1 - stage;  // stages that follow need a segment each
      const int last = rest == 0 ? count : count - rest;
      for (int end = rest == 0 ? count : stage + 1; end <= last; ++end) {
        for (int begin = stage; begin < end; ++begin) {
          if (stage == 0 && begin > 0) break;
          consider(table, stage, begin, end, limit, (this->*cost)(stage, begin, end), combine);
        }
      }
    }
    return table;
  }

  template <typename Combine>
  void consider(Table& table, int stage, int begin, int end, double limit, double cost,
                Combine combine) const {
    Cell before{.empty = 0, .cost = 0};
    if (stage > 0) before = table[static_cast<std::size_t>(stage) - 1][static_cast<std::size_t>(begin)];
    if (before.cost == kNever || slowest(stage, begin, end) > limit) return;
    Cell& cell = table[static_cast<std::size_t>(stage)][static_cast<std::size_t>(end)];
    const Cell found{.empty = before.empty + (at(parameters_, end) == at(parameters_, begin) ? 1 : 0),
                     .cost = combine(before.cost, cost),
                     .begin = begin};
    if (std::pair(found.empty, found.cost) >= std::pair(cell.empty, cell.cost) && cell.cost != kNever) return;
    if (fits(stage, begin, end)) cell = found;
  }

  const CutMachine& machine(int stage) const { return machines_[static_cast<std::size_t>(stage)]; }
  template <typename T>
  static T at(const std::vector<T>& sums, int end) {
    return sums[static_cast<std::size_t>(end)];
  }

  const ModelCosts& costs_;  // both outlive the cutter: it lives in inner_cut()
  const std::vector<CutMachine>& machines_;
  int stages_;
  std::vector<double> flops_{0};  // sums over the segments before
  std::vector<double> seconds_;
  std::vector<std::int64_t> parameters_;
  std::vector<int> slots_;
};

double seconds(const ModelCosts& costs, int first, int last, double flops_per_second,
               double Segment::*flops) {
  double total = 0;
  for (int i = first; i < last; ++i) {
    const Segment& segment = costs.segments[static_cast<std::size_t>(i)];
    total += segment.*flops / flops_per_second + kSecondsPerOp * segment.ops;
  }
  return total;
}

}  // namespace

double forward_seconds(const ModelCosts& costs, int first, int last, double flops_per_second) {
  return seconds(costs, first, last, flops_per_second, &Segment::forward_flops);
}

double backward_seconds(const ModelCosts& costs, int first, int last, double flops_per_second) {
  return seconds(costs, first, last, flops_per_second, &Segment::backward_flops);
}

std::optional<InnerCut> inner_cut(const ModelCosts& costs, const std::vector<CutMachine>& machines) {
  ROOKERY_CHECK(!machines.empty() && costs.count() > 0, "{} segments for {} machines", costs.count(),
                machines.size());
  if (std::ssize(machines) > costs.count()) return std::nullopt;
  return Cutter(costs, machines).best();
}

}  // namespace rookery
