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
      forward_flops_.push_back(forward_flops_.back() + segment.forward_flops);
      seconds_.push_back(seconds_.back() + kSecondsPerOp * segment.ops);
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
      const Cell& cell = transfer[static_cast<std::size_t>(stage)][static_cast<std::size_t>(end)];
      end = cell.begin;
      cut.begins.insert(cut.begins.begin(), end);
      cut.recompute.insert(cut.recompute.begin(), cell.recompute);
    }
    return cut;
  }

 private:
  // Segments on a stage, and how it runs them.
  struct Part {
    int stage, begin, end;
    bool recompute;
  };
  // The best way to put segments [0, end) on stages 0 … stage.
  struct Cell {
    int empty = 0;
    double cost = kNever;
    int begin = -1;  // of the last of these stages
    bool recompute = false;
  };
  using Table = std::vector<std::vector<Cell>>;  // [stage][end]

  double work(const Part& part) const {
    const auto sum = [&](const std::vector<double>& sums) {
      return at(sums, part.end) - at(sums, part.begin);
    };
    const double flops = sum(flops_) + (part.recompute ? sum(forward_flops_) : 0);
    return flops / machine(part.stage).flops_per_second + (part.recompute ? 3 : 2) * sum(seconds_);
  }
  // Of the boundary behind the stage, the slower direction.
  double transfer(const Part& part) const {
    if (part.stage == stages_ - 1) return 0;
    const Segment& next = costs_.segments[static_cast<std::size_t>(part.end)];
    return std::max(next.activation_bytes, next.gradient_bytes) / machine(part.stage).next_bytes_per_second;
  }
  double slowest(const Part& part) const { return std::max(work(part), transfer(part)); }
  bool fits(const Part& part) const {
    const double memory = machine(part.stage).memory_bytes;
    if (memory == kNever) return true;
    const auto& bytes = part.recompute ? costs_.recomputed_memory : costs_.memory;
    return static_cast<double>(bytes(part.begin, part.end, slots_[static_cast<std::size_t>(part.stage)])) <=
           memory;
  }

  template <typename Combine>
  Table solve(double limit, double (Cutter::*cost)(const Part&) const, Combine combine) const {
    const int count = costs_.count();
    Table table(static_cast<std::size_t>(stages_), std::vector<Cell>(static_cast<std::size_t>(count) + 1));
    for (int stage = 0; stage < stages_; ++stage) {
      const int rest = stages_ - 1 - stage;  // stages that follow need a segment each
      const int last = rest == 0 ? count : count - rest;
      for (int end = rest == 0 ? count : stage + 1; end <= last; ++end) {
        for (int begin = stage; begin < end; ++begin) {
          if (stage == 0 && begin > 0) break;
          for (const bool recompute : {false, true}) {
            if (recompute ? !costs_.may_recompute : costs_.must_recompute) continue;
            const Part part{stage, begin, end, recompute};
            if (consider(table, part, limit, (this->*cost)(part), combine)) break;
          }
        }
      }
    }
    return table;
  }

  // False where the part takes too much memory, so that another way to run it is worth a thought.
  template <typename Combine>
  bool consider(Table& table, const Part& part, double limit, double cost, Combine combine) const {
    const auto& [stage, begin, end, recompute] = part;
    Cell before{.empty = 0, .cost = 0};
    if (stage > 0) before = table[static_cast<std::size_t>(stage) - 1][static_cast<std::size_t>(begin)];
    if (before.cost == kNever || slowest(part) > limit) return true;
    Cell& cell = table[static_cast<std::size_t>(stage)][static_cast<std::size_t>(end)];
    const Cell found{.empty = before.empty + (at(parameters_, end) == at(parameters_, begin) ? 1 : 0),
                     .cost = combine(before.cost, cost),
                     .begin = begin,
                     .recompute = recompute};
    if (std::pair(found.empty, found.cost) >= std::pair(cell.empty, cell.cost) && cell.cost != kNever)
      return true;
    if (!fits(part)) return false;
    cell = found;
    return true;
  }

  const CutMachine& machine(int stage) const { return machines_[static_cast<std::size_t>(stage)]; }
  template <typename T>
  static T at(const std::vector<T>& sums, int end) {
    return sums[static_cast<std::size_t>(end)];
  }

  const ModelCosts& costs_;  // both outlive the cutter: it lives in inner_cut()
  const std::vector<CutMachine>& machines_;
  int stages_;
  // Sums over the segments before.
  std::vector<double> flops_{0}, forward_flops_{0};
  std::vector<double> seconds_;  // one direction
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
