// The best cuts of a model for machines in a given order: exact dynamic programming over (stage,
// segment), a machine at a time, so that orders with the same front share its work.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "clusterize/costs/model_costs.hpp"

namespace rookery {

constexpr double kInfinite = std::numeric_limits<double>::infinity();  // seconds, bytes: no bound

// One machine of the row.
struct CutMachine {
  double flops_per_second = 1;
  double memory_bytes = kInfinite;
  double bytes_per_second = kInfinite;  // of its connection
  double seconds_per_byte = 0;          // that sending and receiving takes of its arithmetic's time
  int threads = 1;
};

// Between a machine of the row and the one before it.
struct CutWay {
  double latency = 0;  // seconds
  double bytes_per_second = kInfinite;
};

struct StagePartition {
  std::vector<int> begins;      // first segment of every stage; begins[0] = 0
  std::vector<bool> recompute;  // by stage: does it run forward twice?
  int empty_stages = 0;         // without parameters
  double step_seconds = 0;      // of one batch, see throughput_model.hpp; without exchanges at its end
  double load_seconds = 0;      // most that a machine's connection needs for its part of a round, sent once
};

// Of machines with a number of threads: the work of the segments before.
struct WorkSums {
  std::vector<double> flops, forward_flops, update_flops;
};

// Sums over a model's segments that all cuts need. Refers to `costs`.
class PartitionSums {
 public:
  explicit PartitionSums(const ModelCosts& costs);

  const ModelCosts& costs;
  // Over the segments before. `flops`: forward and backward at least, whatever the machine's threads;
  // `round_bytes`: that a round of averaging carries; `averaged`: numbers that clusters average, parameters
  // and buffers.
  std::vector<double> flops, parameters, round_bytes, averaged;
  // Of a machine with so many threads.
  const WorkSums& work(int threads) const { return of_threads(work_, threads); }

 private:
  ByThreads<WorkSums> work_;
};

// Seconds for segments [first, last): forward and backward of a micro-batch, the update at the end of a step.
struct WorkSeconds {
  double forward = 0, backward = 0, update = 0;
};
WorkSeconds work_seconds(const PartitionSums& sums, int first, int last, const CutMachine& machine);

// A row of `stages` machines that is built from its Root on. A stage that does not fit its machine
// recomputes activations, where the costs allow it.
class StagePartitioner {
 public:
  enum class Goal {
    kStepAndLoad,  // all cuts of which none beats another in both
    kStep,         // the shortest step alone, which takes less work
  };

  // At most as many stages as there are segments. `sums` outlives the partitioner.
  StagePartitioner(const PartitionSums& sums, int stages, Goal goal = Goal::kStepAndLoad);

  // The machine's stage may end before any segment, or before `only_end`.
  void push(const CutMachine& machine, const CutWay& from_before, std::optional<int> only_end = std::nullopt);
  void pop();
  // From now on, fronts whose step is at least that long anyway are dropped.
  void set_limit(double step_seconds) { limit_ = step_seconds; }
  // False where no cut of the machines so far fits their memory.
  bool fits() const;
  // However the machines so far are cut and followed by others, of which the fastest has `fastest` and all
  // have `together` flops per second, and whose ways take `waiting` seconds at least: no step is shorter.
  double bound(double fastest, double together, double waiting) const;
  // With the row full: the cuts that fit with the fewest stages without parameters, and of these all that
  // no other beats in both step_seconds and load_seconds; the shortest step first; of equals, the one whose
  // last stages begin earliest. Beyond kMostLabels ways to cut the front, the least promising are dropped.
  std::vector<StagePartition> cuts() const;

  static constexpr std::size_t kMostLabels = 48;

 private:
  // A way to put the segments before `end` on the machines so far. None of a cell beats another in all.
  struct Label {
    double sum = 0;     // seconds of one micro-batch, forward and backward, with transfers
    double period = 0;  // seconds of the slowest stage, transfer or connection; async: stages with updates
    double update = 0;
    double load = 0;
    // Async, by stage: seconds from its forward of a batch to its update, if the batch turns at the last of
    // these.
    std::vector<double> behind;
    int begin = 0;   // of the last of these machines
    int before = 0;  // label of the machine before
    bool recompute = false;
  };
  struct Cell {  // by `end`
    int empty = 0;
    std::vector<Label> labels;
  };
  using Cells = std::vector<Cell>;
  struct Part {  // segments on the machine that is pushed
    int begin, end;
    bool recompute;
  };

  void extend(const Cells& before, int end, Cell& cell) const;
  // `own` is the label of the part alone.
  void extend_by(const Cell& before, const Part& part, Label own, Cell& cell) const;
  bool is_of_use(const Cell& before, const Part& part, const Label& own, const Cell& cell) const;
  int empty_stages(const Cell& before, const Part& part) const;
  Label joined(const Label& front, const Label& own) const;
  bool beats(const Label& a, const Label& b) const;
  bool fits(const Part& part) const;
  Label label_of(const Part& part) const;
  void add(Cell& cell, const Label& label) const;
  double step_seconds(const Label& label) const;
  StagePartition trace(int label) const;

  const PartitionSums& sums_;
  int stages_;
  Goal goal_;
  bool is_synchronous_;
  double limit_ = kInfinite;
  std::vector<int> slots_;  // by stage: micro-batches in flight
  std::vector<int> most_;   // by stage: the most that a plan may choose
  std::vector<CutMachine> machines_;
  std::vector<const WorkSums*> work_;  // by machine
  CutWay way_;
  std::vector<Cells> cells_;  // by machine; the first is what is before them all
};

}  // namespace rookery
