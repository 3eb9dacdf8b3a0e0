#include "clusterize/costs/stage_memory.hpp"

#include <algorithm>

#include "clusterize/profile/by_threads.hpp"
#include "models/base/check.hpp"
#include "models/kernels/threads.hpp"
#include "trainer/encoding/reconstructions.hpp"
#include "trainer/schedule/machine_order.hpp"
#include "trainer/trainer.hpp"
#include "trainer/transfers.hpp"

namespace rookery {

namespace {

std::int64_t link_bytes(const Stage& stage, std::int64_t micro_batch, const ScheduleSettings& schedule,
                        int micro_batches, const EdgeEncoding& encoding) {
  const auto aligned = [](std::int64_t bytes) {
    return static_cast<std::int64_t>(align_up(static_cast<std::size_t>(bytes)));
  };
  const std::vector<Transfer> all = transfers(stage, micro_batch, schedule, micro_batches, encoding);
  std::int64_t bytes = 0;
  for (const Transfer& transfer : all)
    bytes += transfer.under_way * aligned(transfer.bytes) + transfer.kept_bytes;
  for (const std::int64_t coded : coding_buffers(all)) bytes += aligned(coded);
  return bytes;
}

Stage without_outputs(Stage stage) {
  stage.outputs.clear();
  return stage;
}

// Of the stages of all clusters that a model of so many segments can be cut for: the first has the most.
int slots_of_any_stage(const TrainingSettings& settings, int segments) {
  const ScheduleSettings& schedule = settings.schedule;
  const auto micro_batches = static_cast<int>(std::ssize(micro_batch_sizes(settings, settings.batch_size)));
  int most = 1;
  for (int machines = 1; machines * chunks_of(schedule) <= segments; ++machines)
    most = std::max(most, slots(schedule, 0, placement_on(schedule, machines).stages(), micro_batches));
  return most;
}

}  // namespace

std::int64_t transport_bytes(const Stage& stage, std::int64_t micro_batch, const ScheduleSettings& schedule,
                             int micro_batches, const EdgeEncoding& encoding) {
  const int again = sent_again(schedule, stage.index, stage.count, micro_batches);
  return link_bytes(stage, micro_batch, schedule, micro_batches, encoding) +
         Reconstructions::bytes(stage, micro_batch, encoding, again);
}

StageMemory::StageMemory(Graph graph, std::vector<OpId> begins, TrainingSettings settings, DataSizes data,
                         const KernelChoice& kernels, int threads, int clusters)
    : graph_(std::move(graph)),
      begins_(std::move(begins)),
      settings_(std::move(settings)),
      encoding_(settings_.transport, input_names(graph_), data.train_samples),
      data_bytes_(data.bytes),
      threads_(threads),
      options_(compile_options(settings_, data, 0, 1, kernels)),
      may_update_ahead_(may_update_ahead(settings_, graph_)),
      most_slots_(slots_of_any_stage(settings_, segments())),
      measured_(segments(), most_slots_),
      estimated_(segments(), most_slots_) {
  options_.processor = &processor_;
  options_.updates_in_backward = may_update_in_backward(settings_, options_.micro_batches, clusters);
  find_tied();
}

StageMemory::Table::Table(int segments, int most_slots)
    : segments_(static_cast<std::size_t>(segments)),
      most_slots_(static_cast<std::size_t>(most_slots)),
      bytes_(2 * segments_ * segments_ * most_slots_) {}

std::atomic<std::int64_t>& StageMemory::Table::at(const StageRange& range) {
  const std::size_t pair =
      static_cast<std::size_t>(range.first) * segments_ + static_cast<std::size_t>(range.last - 1);
  const auto slot = static_cast<std::size_t>(range.slots - 1);
  ROOKERY_CHECK(slot < most_slots_, "{} slots of {}", range.slots, most_slots_);
  return bytes_[(pair * most_slots_ + slot) * 2 + (range.recompute ? 1 : 0)];
}

void StageMemory::find_tied() {
  std::map<ValueId, int> last_user;
  for (std::size_t op = 0; op < graph_.ops().size(); ++op) {
    const auto next = std::ranges::upper_bound(begins_, static_cast<OpId>(op));
    const auto segment = static_cast<int>(next - begins_.begin()) - 1;
    for (const ValueId input : graph_.ops()[op].inputs) {
      if (input == kNoValue) continue;
      if (graph_.value(input).kind != ValueKind::kParameter && !graph_.value(input).fixed) continue;
      const auto [found, is_first] = last_user.emplace(input, segment);
      if (!is_first && segment >= found->second + kWindow)
        tied_.push_back(
            {found->second, segment, static_cast<std::int64_t>(align_up(graph_.value(input).type.bytes()))});
      found->second = segment;
    }
  }
}

// The stage as it is in any cut that has these two boundaries: what it keeps does not depend on how
// the rest is cut.
Stage StageMemory::stage(int first, int last) const {
  std::vector<OpId> cuts{0};
  if (first > 0) cuts.push_back(begins_[first]);
  if (last < segments()) cuts.push_back(begins_[last]);
  std::vector<Stage> stages = cut(graph_, cuts);
  return std::move(stages[first > 0 ? 1 : 0]);
}

CompileOptions StageMemory::options(int slots, bool recompute) const {
  CompileOptions options = options_;
  options.slots = slots;
  options.recompute = recompute;
  options.delays_weights = delays_weights(settings_.schedule) && options.accumulates();
  return options;
}

// As of one cluster: where there are several, it takes less.
CompileOptions StageMemory::options_of(const Stage& stage, int slots, bool recompute) const {
  CompileOptions made = options(slots, recompute);
  made.updates_ahead = may_update_ahead_ && !stage.is_leaf();
  return made;
}

// Where machines have several stages, as many of a tensor may be under way as the stage before has in flight.
// In all orders that is at most half as many again as the stage has slots, and two. What comes from stages
// before that one may be more, which is seen when stages are cut.
double StageMemory::under_way(int slots) const {
  if (!has_chunks(settings_.schedule)) return 1;
  return std::max(1.0, std::min(most_slots_, slots + slots / 2 + 2) / 2.0);
}

std::int64_t StageMemory::transport(const Stage& stage) const {
  return link_bytes(stage, micro_batch_sizes(settings_, settings_.batch_size).front(), {}, 1, encoding_);
}

// As many micro-batches may be sent again as any stage has in flight.
std::int64_t StageMemory::reconstructions(const Stage& stage) const {
  return Reconstructions::bytes(stage, micro_batch_sizes(settings_, settings_.batch_size).front(), encoding_,
                                may_update_ahead_ ? most_slots_ : 0);
}

std::int64_t StageMemory::measured(const StageRange& range) {
  std::atomic<std::int64_t>& known = measured_.at(range);
  if (known != 0) return known;
  const KernelThreads threads(threads_);
  const Stage compiled = stage(range.first, range.last);
  const auto two_of_each = static_cast<double>(transport(compiled));
  const std::int64_t kept = reconstructions(compiled);
  const auto others = [&](int slots) {
    return static_cast<std::int64_t>(under_way(slots) * two_of_each) + kept +
           (range.first == 0 ? data_bytes_ : 0);
  };
  // Hardly dearer for all numbers of slots than for one.
  const std::vector<MemoryUse> uses =
      memory_by_slots(compiled, options_of(compiled, most_slots_, range.recompute));
  for (StageRange each = range; const MemoryUse& use : uses) {
    each.slots = static_cast<int>(&use - uses.data()) + 1;
    measured_.at(each) = use.total() + others(each.slots);
  }
  return known;
}

// By first segment.
std::vector<StageMemory::Parts> StageMemory::windows(int length, bool recompute) const {
  const KernelThreads threads(threads_);
  const int slots =
      recompute || options_.stashes_weights ? 2 : 1;  // of one nothing is computed again, or stashed
  std::vector<Parts> all(segments() - length + 1);
  // A cut into windows side by side, for every place where the first may begin.
  for (int offset = 0; offset < length; ++offset) {
    std::vector<OpId> begins{0};
    for (int i = offset; i < segments(); i += length) {
      if (i > 0) begins.push_back(begins_[i]);
    }
    const std::vector<Stage> stages = cut(graph_, begins);
    std::size_t stage = offset == 0 ? 0 : 1;
    for (int i = offset; i + length <= segments(); i += length, ++stage) {
      const MemoryUse use = memory_use(stages[stage], options_of(stages[stage], slots, recompute));
      const auto received = static_cast<double>(reconstructions(without_outputs(stages[stage])));
      all[i] = {.fixed = static_cast<double>(use.total() - use.stash - use.workspace - use.versions),
                .stash = static_cast<double>(use.stash) / slots,
                .version =
                    static_cast<double>(use.versions) / std::max(1, options(slots, recompute).versions() - 1),
                .workspace = static_cast<double>(use.workspace),
                .transport = static_cast<double>(transport(stages[stage])),
                .received = received,
                .sent = static_cast<double>(reconstructions(stages[stage])) - received};
    }
  }
  return all;
}

const StageMemory::Estimate& StageMemory::estimate(bool recompute) {
  const std::scoped_lock lock(estimates_mutex_);
  const auto [found, is_new] = estimates_.try_emplace(recompute);
  Estimate& made = found->second;
  if (!is_new) return made;
  for (int length = 1; length <= kWindow; ++length) made.windows.push_back(windows(length, recompute));
  const std::vector<Parts>& with = made.windows[kWindow - 1];
  const std::vector<Parts>& without = made.windows[kWindow - 2];
  made.growth.emplace_back();
  for (std::size_t i = 0; i < with.size(); ++i) {
    const Parts& before = made.growth.back();
    made.growth.push_back({.fixed = before.fixed + with[i].fixed - without[i].fixed,
                           .stash = before.stash + with[i].stash - without[i].stash,
                           .version = before.version + with[i].version - without[i].version});
  }
  return made;
}

std::int64_t StageMemory::estimated(const StageRange& range) {
  std::atomic<std::int64_t>& known = estimated_.at(range);
  if (known == 0) known = estimate_of(range);
  return known;
}

std::int64_t StageMemory::estimate_of(const StageRange& range) {
  const auto& [first, last, slots, recompute, threads] = range;
  const Estimate& known = estimate(recompute);
  const int length = std::min(last - first, kWindow);
  const std::vector<Parts>& windows = known.windows[length - 1];
  const auto begin = static_cast<std::size_t>(first);
  const auto end = static_cast<std::size_t>(last - length);  // where the last window begins
  Parts sum = windows[begin];
  sum.sent = windows[end].sent;
  if (end > begin) {
    const Parts& from = known.growth[begin + 1];
    const Parts& to = known.growth[end + 1];
    sum.fixed += to.fixed - from.fixed;
    sum.stash += to.stash - from.stash;
    sum.version += to.version - from.version;
  }
  for (std::size_t i = begin; i <= end; ++i) {
    sum.workspace = std::max(sum.workspace, windows[i].workspace);
    sum.transport = std::max(sum.transport, windows[i].transport);
  }
  std::int64_t tied_bytes = 0;
  for (const Tied& tied : tied_) {
    if (tied.first >= first && tied.last < last) tied_bytes += tied.bytes;
  }
  const int older = options(slots, recompute).versions() - 1;
  return static_cast<std::int64_t>(sum.fixed + slots * sum.stash + older * sum.version + sum.workspace +
                                   under_way(slots) * sum.transport + sum.received + sum.sent) -
         tied_bytes + (first == 0 ? data_bytes_ : 0);
}

namespace {

// What every stage takes in truth.
class MeasuredMemory final : public MemoryModel {
 public:
  explicit MeasuredMemory(std::shared_ptr<StageMemory> stages) : stages_(std::move(stages)) {}
  std::int64_t bytes(const StageRange& range) const override { return stages_->measured(range); }

 private:
  const std::shared_ptr<StageMemory> stages_;
};

// What was measured of some stages, and of all others estimates: raised so that they would not have been too
// low for those that were measured.
class EstimatedMemory final : public MemoryModel {
 public:
  explicit EstimatedMemory(std::shared_ptr<StageMemory> stages)
      : stages_(std::move(stages)),
        measured_(2 * static_cast<std::size_t>(stages_->segments() * stages_->segments()) *
                  static_cast<std::size_t>(stages_->most_slots())) {}

  std::int64_t bytes(const StageRange& range) const override {
    if (const std::int64_t known = measured_[index(range)]; known != 0) return known;
    return static_cast<std::int64_t>(raise_ * static_cast<double>(stages_->estimated(range)));
  }

  bool is_exact() const override { return false; }

  std::shared_ptr<const MemoryModel> refine(std::span<const StageRange> stages) const override {
    auto refined = std::make_shared<EstimatedMemory>(*this);
    for (const StageRange& range : stages) refined->learn(range);
    return refined;
  }

  std::shared_ptr<const MemoryModel> exact() const override {
    return std::make_shared<MeasuredMemory>(stages_);
  }

 private:
  std::size_t index(const StageRange& range) const {
    const int pair = range.first * stages_->segments() + range.last - 1;
    return static_cast<std::size_t>((pair * stages_->most_slots() + range.slots - 1) * 2 +
                                    (range.recompute ? 1 : 0));
  }

  void learn(const StageRange& range) {
    const auto bytes = static_cast<double>(stages_->measured(range));
    raise_ = std::max(raise_, bytes / static_cast<double>(stages_->estimated(range)));
    measured_[index(range)] = stages_->measured(range);
    if (range.recompute) return;
    StageRange each = range;  // which were measured together
    for (each.slots = 1; each.slots <= stages_->most_slots(); ++each.slots)
      measured_[index(each)] = stages_->measured(each);
  }

  std::shared_ptr<StageMemory> stages_;
  std::vector<std::int64_t> measured_;  // 0 where it was not
  double raise_ = 1;
};

// Of nodes that differ in threads.
class MemoryByThreads final : public MemoryModel {
 public:
  using Models = ByThreads<std::shared_ptr<const MemoryModel>>;
  explicit MemoryByThreads(Models models) : models_(std::move(models)) {}

  std::int64_t bytes(const StageRange& range) const override {
    return of_threads(models_, range.threads)->bytes(range);
  }
  bool is_exact() const override { return models_.begin()->second->is_exact(); }
  std::shared_ptr<const MemoryModel> refine(std::span<const StageRange> stages) const override {
    if (is_exact()) return nullptr;
    Models refined;
    for (const auto& [threads, model] : models_) {
      std::vector<StageRange> own;
      for (const StageRange& range : stages) {
        if (&of_threads(models_, range.threads) == &model) own.push_back(range);
      }
      refined[threads] = model->refine(own);
    }
    return std::make_shared<MemoryByThreads>(std::move(refined));
  }
  std::shared_ptr<const MemoryModel> exact() const override {
    if (is_exact()) return nullptr;
    Models exact;
    for (const auto& [threads, model] : models_) exact[threads] = model->exact();
    return std::make_shared<MemoryByThreads>(std::move(exact));
  }

 private:
  const Models models_;
};

}  // namespace

std::shared_ptr<const MemoryModel> stage_memory(const Graph& graph, const std::vector<OpId>& begins,
                                                const TrainingSettings& settings, DataSizes data,
                                                const KernelChoice& kernels, const std::set<int>& threads,
                                                int clusters) {
  ByThreads<std::shared_ptr<const MemoryModel>> models;
  for (const int each : threads) {
    auto stages = std::make_shared<StageMemory>(graph, begins, settings, data, kernels, each, clusters);
    if (stages->segments() > kExactSegments)
      models[each] = std::make_shared<EstimatedMemory>(std::move(stages));
    else
      models[each] = std::make_shared<MeasuredMemory>(std::move(stages));
  }
  if (models.size() == 1) return models.begin()->second;
  return std::make_shared<MemoryByThreads>(std::move(models));
}

}  // namespace rookery
