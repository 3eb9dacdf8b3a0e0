// Pipeline schedules: pure functions from (stage, stages, batches, micro-batches) to the actions of a run.
// The runtime and the simulator read the same. A schedule is a row of schedule_kinds().
//   1f1b   synchronous one-forward-one-backward (PipeDream-flush, arXiv 2006.09503): within a batch stage k
//          runs n_k - 1 forwards ahead, then alternates forward and backward, so that min(M, n_k)
//          micro-batches are in flight; every batch begins when the update of the one before is made.
//   zb     1f1b, whose gradients of weights (W), which nobody waits for, fill what would be waiting (ZB-H1 of
//          arXiv 2401.10241): W of a micro-batch follows the B of that which is n_0 - n_k later, so that
//          later stages send gradients sooner, and what is left of W ends the batch. Every stage keeps what
//          min(M, n_0) micro-batches need. Where gradients are clipped updates may come before their norm:
//          see ScheduleSettings::updates_ahead.
//   async  no flush between batches (PipeDream, arXiv 1806.03377): stage k runs n_k - 1 micro-batches ahead,
//          also of later batches, and makes its update after a batch's last backward. A micro-batch uses one
//          version of the weights in forward and backward, predicted from those that the stage has at its
//          forward, so that gradients are (n_k - 1) / M updates old in the mean, at most that rounded up. On
//          stages that share parameters with others all micro-batches of a batch have those of its first.
//   interleaved, zbv  synchronous, with several stages on each machine, whose actions have one order
//          (machine_order.hpp). A stage's are those of its machine's order that are its own, then the update.
//          That order says how many are in flight; a plan chooses among some.
// Gradients are summed in the order of micro-batches in all of them. In the first three n_k is stages - k,
// which keeps all stages busy where they are alike and nothing is long on its way; where something is, more
// are needed (eager 1F1B, arXiv 2211.05322), which a planner finds out (clusterize/costs/step_parts.hpp). A
// stage with fewer in flight than the next one would wait for it for ever, and it for the stage: n_k never
// rises from stage to stage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rookery {

constexpr int kMostStaleness = 1'000'000;  // that may be asked for
constexpr int kMostInFlight = 4096;        // likewise
constexpr int kMostChunks = 16;            // likewise

inline constexpr const char* kAutoSchedule = "auto";  // in the place of a name: clusterize chooses one

struct ScheduleSettings {
  std::string name = "1f1b";         // of a row of schedule_kinds()
  std::optional<int> max_staleness;  // of async, in updates; nothing: as its number of stages makes it
  // Micro-batches in flight on the first of several stages; one is on the last, and between them the numbers
  // fall evenly. Nothing: as many as there are stages, unless a plan has chosen. With chunks: the most that a
  // plan may choose.
  std::optional<int> in_flight;
  std::optional<int> chunks;  // of interleaved, from 2: stages on each of several machines; nothing: 2
  // What a plan has chosen, by stage of a cluster; empty: nothing. Never rises, and is no more than
  // most_in_flight(). With chunks: what in_flight() says of an order by its first number.
  std::vector<int> planned;
  // Does a stage make its update before it knows by what norm gradients are clipped, and take it back where
  // that was wrong? A plan's choice, for all stages (see StageWorker).
  bool updates_ahead = false;
  bool operator==(const ScheduleSettings&) const = default;
};

// The row of a schedule: all that tells it from the others.
struct ScheduleKind {
  std::string name;
  std::string help;  // for the documentation
  // Do all stages make their updates between the same two batches?
  bool is_synchronous;
  // May W come later than directly after B?
  bool delays_weights;
  // See in_flight(), without what is planned, and most_in_flight().
  int (*in_flight)(const ScheduleSettings& settings, int stage, int stages, int micro_batches);
  int (*most_in_flight)(const ScheduleSettings& settings, int stage, int stages, int micro_batches);
  // See chunks_of(); nullptr: one.
  int (*chunks)(const ScheduleSettings& settings) = nullptr;
  bool turns_back = false;
};
const std::vector<ScheduleKind>& schedule_kinds();
// ConfigError for an unknown name, and for one that clusterize has yet to choose, as from all functions
// below.
bool is_synchronous(const ScheduleSettings& settings);
bool delays_weights(const ScheduleSettings& settings);
// Stages on each machine of a cluster of several.
int chunks_of(const ScheduleSettings& settings);
bool has_chunks(const ScheduleSettings& settings);  // more than one
// Does every second chunk lead back over the machines (StagePlacement)?
bool chunks_turn_back(const ScheduleSettings& settings);

enum class ActionKind : char {
  kForward = 'F',
  kBackwardInputs = 'B',   // gradients of the stage's inputs
  kBackwardWeights = 'W',  // gradients of its weights
  kUpdate = 'U',           // of its weights, after a batch's last W
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  std::int64_t batch = 0;  // of the run
  int micro_batch = 0;     // of the batch
  bool operator==(const Action&) const = default;
};

// The actions of one stage for a run of batches, before which all updates are made, as after it.
class Schedule {
 public:
  // BugError unless 0 <= stage < stages, batches >= 1, micro_batches >= 1, and, as from the functions below,
  // a cluster may have so many stages.
  Schedule(const ScheduleSettings& settings, int stage, int stages, std::int64_t batches, int micro_batches);
  // Nothing when all are done.
  std::optional<Action> next();

 private:
  std::optional<Action> next_of_order();
  bool may_run_ahead() const;
  bool are_weights_due() const;

  bool is_synchronous_;
  std::int64_t micro_batches_;  // of a batch
  std::int64_t all_;            // micro-batches of the run
  // With chunks: what is done of every batch, and how much was, of all.
  std::vector<Action> order_;
  std::int64_t done_ = 0;
  // Without: counters decide what is next, of micro-batches of the run.
  std::int64_t ahead_ = 0;
  std::int64_t weights_behind_ = 0;
  std::int64_t forward_ = 0;  // whose turn it is
  std::int64_t backward_ = 0;
  std::int64_t weights_ = 0;
  std::int64_t updates_ = 0;
};

std::vector<Action> actions(Schedule schedule);
// "F0 F1 B0 W0 U0 …", counting micro-batches; of updates, batches.
std::string to_string(const std::vector<Action>& actions, int micro_batches);

// The largest number of micro-batches whose forward has run and whose B has not. BugError where something is
// planned for another number of stages.
int in_flight(const ScheduleSettings& settings, int stage, int stages, int micro_batches);
// The forwards of a batch that a stage runs while the update before may still be taken back (updates_ahead):
// those before its first B, and where its machine has several stages also before theirs, which may need what
// it runs again.
int forwards_ahead(const ScheduleSettings& settings, int stage, int stages, int micro_batches);
// By how many micro-batches W comes later than B, at most.
int weights_behind(const ScheduleSettings& settings, int stage, int stages, int micro_batches);
// Has the stage other actions between a B and its W?
bool delays_weights(const ScheduleSettings& settings, int stage, int stages, int micro_batches);
// The largest number of micro-batches whose forward has run and whose W has not: which a stage has memory
// for.
int slots(const ScheduleSettings& settings, int stage, int stages, int micro_batches);
// The most that a plan may choose; what in_flight() says where settings, or a plan, leave no choice, and with
// chunks.
int most_in_flight(const ScheduleSettings& settings, int stage, int stages, int micro_batches);
// The number of updates that a stage makes between the first forward of a batch and the batch's own.
int staleness(const ScheduleSettings& settings, int stage, int stages, int micro_batches);
// The same of all micro-batches, in the mean.
double mean_staleness(const ScheduleSettings& settings, int stage, int stages, int micro_batches);
// The former of a stage with so many in flight.
int updates_behind(const ScheduleSettings& settings, int in_flight, int micro_batches);

}  // namespace rookery
