#include "trainer/schedule/schedule.hpp"

#include <algorithm>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/named_rows.hpp"
#include "trainer/schedule/machine_order.hpp"

namespace rookery {
namespace {

// On stage k of S: 1 + (first - 1) (S - 1 - k) / (S - 1), rounded up.
int spread(const ScheduleSettings& settings, int stage, int stages) {
  const std::int64_t behind = stages - 1 - stage;
  if (behind == 0 || !settings.in_flight) return static_cast<int>(1 + behind);
  const std::int64_t others = stages - 1;
  return static_cast<int>(1 + ((*settings.in_flight - 1) * behind + others - 1) / others);
}

int in_flight_1f1b(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  return std::min(micro_batches, spread(settings, stage, stages));
}

int most_in_flight_1f1b(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  const bool is_open = !settings.in_flight && stage + 1 < stages;
  return is_open ? micro_batches : in_flight_1f1b(settings, stage, stages, micro_batches);
}

// Micro-batches of as many updates.
int allowed_ahead(int max_staleness, int micro_batches) {
  constexpr std::int64_t kMost = kMostStaleness;
  return static_cast<int>(std::min(kMost, std::int64_t{max_staleness} * micro_batches));
}

// More than a batch has: batches follow each other.
int in_flight_async(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  const int ahead = spread(settings, stage, stages) - 1;
  if (!settings.max_staleness) return 1 + ahead;
  return 1 + std::min(ahead, allowed_ahead(*settings.max_staleness, micro_batches));
}

// More than fills the pipeline of a fast network makes gradients older, which is the user's to allow.
int most_in_flight_async(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  const bool is_open = !settings.in_flight && settings.max_staleness && stage + 1 < stages;
  return is_open ? 1 + allowed_ahead(*settings.max_staleness, micro_batches)
                 : in_flight_async(settings, stage, stages, micro_batches);
}

// What a machine's order means for one of its stages.
struct OrderFigures {
  int in_flight = 0;
  int slots = 0;
  int weights_behind = 0;
  bool delays_weights = false;
};

template <typename Visit>
void for_each_action(const ScheduleSettings& settings, int stage, int stages, int micro_batches,
                     const Visit& visit) {
  const int machine = placement_of(settings, stages).machine_of(stage);
  for (const StageAction& action : machine_order(settings, machine, stages, micro_batches))
    if (action.stage == stage) visit(action);
}

OrderFigures order_figures(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  OrderFigures figures;
  int forwards = 0;
  int inputs = 0;
  int weights = 0;
  ActionKind before = ActionKind::kUpdate;
  for_each_action(settings, stage, stages, micro_batches, [&](const StageAction& action) {
    if (action.kind == ActionKind::kForward) {
      ++forwards;
      figures.in_flight = std::max(figures.in_flight, forwards - inputs);
      figures.slots = std::max(figures.slots, forwards - weights);
    } else if (action.kind == ActionKind::kBackwardInputs) {
      ++inputs;
    } else {
      figures.weights_behind = std::max(figures.weights_behind, inputs - ++weights);
      figures.delays_weights |= before != ActionKind::kBackwardInputs || inputs != weights;
    }
    before = action.kind;
  });
  return figures;
}

int in_flight_of_order(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  return order_figures(settings, stage, stages, micro_batches).in_flight;
}

int chunks_interleaved(const ScheduleSettings& settings) {
  const int chunks = settings.chunks.value_or(2);
  ROOKERY_CHECK(2 <= chunks && chunks <= kMostChunks, "{} chunks", chunks);
  return chunks;
}

const ScheduleKind& kind_of(const ScheduleSettings& settings) {
  const ScheduleKind* kind = find_row(schedule_kinds(), settings.name);
  if (kind != nullptr) return *kind;
  if (settings.name == kAutoSchedule)
    throw ConfigError("schedule: \"auto\" is for clusterize, which decides it");
  throw ConfigError(fmt::format("schedule: there is no '{}'; there is: {}", settings.name,
                                fmt::join(names_of(schedule_kinds()), ", ")));
}

void check_place(int stage, int stages, int micro_batches) {
  ROOKERY_CHECK(0 <= stage && stage < stages, "stage {} of {}", stage, stages);
  ROOKERY_CHECK(micro_batches >= 1, "{} micro-batches", micro_batches);
}

}  // namespace

const std::vector<ScheduleKind>& schedule_kinds() {
  static const std::vector<ScheduleKind> kinds{
      {.name = "1f1b",
       .help = "one forward, one backward, one update a batch, the same bits whatever the cut",
       .is_synchronous = true,
       .delays_weights = false,
       .in_flight = in_flight_1f1b,
       .most_in_flight = most_in_flight_1f1b},
      {.name = "zb",
       .help =
           "as `1f1b`, to the same bits, but gradients of weights are computed while a stage would wait for "
           "others: less waiting, and on every stage the memory of the first one's micro-batches; with "
           "`clip_gradient_norm` also a copy of weights and optimizer state",
       .is_synchronous = true,
       .delays_weights = true,
       .in_flight = in_flight_1f1b,
       .most_in_flight = most_in_flight_1f1b},
      {.name = "async",
       .help =
           "batches follow each other without a gap, each stage makes its update at once, and gradients are "
           "older than the weights that they change: with as many `micro_batches` as there are stages on the "
           "first stage most by one update, with more the fewer. That is set against by weights that are "
           "predicted, and by Adam's `betas`: where gradients are old, 1 minus the first is down to a fifth "
           "of what is set",
       .is_synchronous = false,
       .delays_weights = false,
       .in_flight = in_flight_async,
       .most_in_flight = most_in_flight_async},
      {.name = "interleaved",
       .help =
           "as `1f1b`, to the same bits, but each machine of a cluster has several stages (`chunks`), and a "
           "micro-batch goes round the machines as often: so many times less waiting while the pipeline "
           "fills and drains, for as many times more that machines send each other, and more memory",
       .is_synchronous = true,
       .delays_weights = false,
       .in_flight = in_flight_of_order,
       .most_in_flight = in_flight_of_order,
       .chunks = chunks_interleaved},
      {.name = "zbv",
       .help =
           "as `zb`, to the same bits, but each machine of a cluster has two stages, the first machine also "
           "the last stage: hardly any waiting, for twice as much that machines send each other, and on all "
           "of them the memory that `1f1b` takes on the first; with `clip_gradient_norm` a copy besides, as "
           "`zb`",
       .is_synchronous = true,
       .delays_weights = true,
       .in_flight = in_flight_of_order,
       .most_in_flight = in_flight_of_order,
       .chunks = [](const ScheduleSettings& /*settings*/) { return 2; },
       .turns_back = true}};
  return kinds;
}

bool is_synchronous(const ScheduleSettings& settings) {
  return kind_of(settings).is_synchronous;
}

bool delays_weights(const ScheduleSettings& settings) {
  return kind_of(settings).delays_weights;
}

int chunks_of(const ScheduleSettings& settings) {
  const ScheduleKind& kind = kind_of(settings);
  return kind.chunks == nullptr ? 1 : kind.chunks(settings);
}

bool has_chunks(const ScheduleSettings& settings) {
  return chunks_of(settings) > 1;
}

bool chunks_turn_back(const ScheduleSettings& settings) {
  return kind_of(settings).turns_back;
}

Schedule::Schedule(const ScheduleSettings& settings, int stage, int stages, std::int64_t batches,
                   int micro_batches)
    : is_synchronous_(is_synchronous(settings)),
      micro_batches_(micro_batches),
      all_(batches * micro_batches) {
  check_place(stage, stages, micro_batches);
  ROOKERY_CHECK(batches >= 1, "{} batches", batches);
  if (!has_chunks(settings)) {
    ahead_ = in_flight(settings, stage, stages, micro_batches) - 1;
    weights_behind_ = weights_behind(settings, stage, stages, micro_batches);
    return;
  }
  for_each_action(settings, stage, stages, micro_batches, [&](const StageAction& action) {
    order_.push_back({.kind = action.kind, .micro_batch = action.micro_batch});
  });
  order_.push_back({.kind = ActionKind::kUpdate, .micro_batch = micro_batches - 1});
}

std::optional<Action> Schedule::next_of_order() {
  const std::int64_t batch = done_ / std::ssize(order_);
  if (batch * micro_batches_ == all_) return std::nullopt;
  Action action = order_[static_cast<std::size_t>(done_++ % std::ssize(order_))];
  action.batch = batch;
  return action;
}

bool Schedule::may_run_ahead() const {
  if (forward_ == all_ || forward_ - backward_ > ahead_) return false;
  return !is_synchronous_ || forward_ / micro_batches_ == backward_ / micro_batches_;
}

// Those that are late enough; all that are left where the batch has no other work.
bool Schedule::are_weights_due() const {
  if (weights_ == backward_) return false;
  return backward_ - weights_ > weights_behind_ || backward_ % micro_batches_ == 0;
}

std::optional<Action> Schedule::next() {
  if (!order_.empty()) return next_of_order();
  const auto action = [&](ActionKind kind, std::int64_t micro_batch) {
    return Action{kind, micro_batch / micro_batches_, static_cast<int>(micro_batch % micro_batches_)};
  };
  if (are_weights_due()) return action(ActionKind::kBackwardWeights, weights_++);
  if (weights_ == (updates_ + 1) * micro_batches_)
    return action(ActionKind::kUpdate, ++updates_ * micro_batches_ - 1);
  if (may_run_ahead()) return action(ActionKind::kForward, forward_++);
  if (backward_ == all_) return std::nullopt;
  return action(ActionKind::kBackwardInputs, backward_++);
}

std::vector<Action> actions(Schedule schedule) {
  std::vector<Action> all;
  while (const std::optional<Action> action = schedule.next()) all.push_back(*action);
  return all;
}

std::string to_string(const std::vector<Action>& actions, int micro_batches) {
  std::string text;
  for (const Action& action : actions) {
    const bool is_update = action.kind == ActionKind::kUpdate;
    if (!text.empty()) text += ' ';
    text += static_cast<char>(action.kind);
    text += std::to_string(is_update ? action.batch : action.batch * micro_batches + action.micro_batch);
  }
  return text;
}

int in_flight(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  check_place(stage, stages, micro_batches);
  const ScheduleKind& kind = kind_of(settings);
  if (settings.planned.empty() || kind.chunks != nullptr)
    return kind.in_flight(settings, stage, stages, micro_batches);
  ROOKERY_CHECK(std::ssize(settings.planned) == stages, "a plan for {} stages, not {}",
                settings.planned.size(), stages);
  const int planned = settings.planned[static_cast<std::size_t>(stage)];
  if (kind.is_synchronous) return std::min(micro_batches, planned);
  // A cluster whose share of a batch has fewer micro-batches makes more updates meanwhile.
  return settings.max_staleness ? std::min(planned, 1 + allowed_ahead(*settings.max_staleness, micro_batches))
                                : planned;
}

int forwards_ahead(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  if (!has_chunks(settings)) return in_flight(settings, stage, stages, micro_batches);
  check_place(stage, stages, micro_batches);
  const int machine = placement_of(settings, stages).machine_of(stage);
  int forwards = 0;
  for (const StageAction& action : machine_order(settings, machine, stages, micro_batches)) {
    if (action.kind != ActionKind::kForward) break;
    if (action.stage == stage) ++forwards;
  }
  return forwards;
}

int weights_behind(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  check_place(stage, stages, micro_batches);
  if (has_chunks(settings)) return order_figures(settings, stage, stages, micro_batches).weights_behind;
  return slots(settings, stage, stages, micro_batches) - in_flight(settings, stage, stages, micro_batches);
}

bool delays_weights(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  check_place(stage, stages, micro_batches);
  return has_chunks(settings) ? order_figures(settings, stage, stages, micro_batches).delays_weights
                              : weights_behind(settings, stage, stages, micro_batches) > 0;
}

int slots(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  check_place(stage, stages, micro_batches);
  if (has_chunks(settings)) return order_figures(settings, stage, stages, micro_batches).slots;
  return in_flight(settings, delays_weights(settings) ? 0 : stage, stages, micro_batches);
}

int most_in_flight(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  if (!settings.planned.empty()) return in_flight(settings, stage, stages, micro_batches);
  check_place(stage, stages, micro_batches);
  return kind_of(settings).most_in_flight(settings, stage, stages, micro_batches);
}

int staleness(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  return updates_behind(settings, in_flight(settings, stage, stages, micro_batches), micro_batches);
}

// Of the micro-batches of a batch, number i has (in flight − 1 − i) / micro-batches of them, rounded up.
double mean_staleness(const ScheduleSettings& settings, int stage, int stages, int micro_batches) {
  const int ahead = is_synchronous(settings) ? 0 : in_flight(settings, stage, stages, micro_batches) - 1;
  return static_cast<double>(ahead) / micro_batches;
}

int updates_behind(const ScheduleSettings& settings, int in_flight, int micro_batches) {
  return is_synchronous(settings) ? 0 : (in_flight - 1 + micro_batches - 1) / micro_batches;
}

}  // namespace rookery
