#include "clusterize/costs/stage_memory.hpp"

#include <algorithm>

#include "models/base/check.hpp"
#include "trainer/schedule/schedule.hpp"
#include "trainer/trainer.hpp"
#include "trainer/transfers.hpp"

namespace rookery {

std::int64_t transport_bytes(const Stage& stage, std::int64_t micro_batch) {
  std::int64_t bytes = 0;
  for (const Transfer& transfer : transfers(stage, micro_batch))
    bytes +=
        kTransfersUnderWay * static_cast<std::int64_t>(align_up(static_cast<std::size_t>(transfer.bytes)));
  return bytes;
}

StageMemory::StageMemory(Graph graph, std::vector<OpId> begins, TrainingSettings settings, DataSizes data,
                         const KernelChoice& kernels)
    : graph_(std::move(graph)),
      begins_(std::move(begins)),
      settings_(std::move(settings)),
      data_bytes_(data.bytes),
      options_(compile_options(settings_, data, 0, 1, kernels)),
      most_slots_(
          in_flight(settings_.schedule, 0, segments(),
                    static_cast<int>(std::ssize(micro_batch_sizes(settings_, settings_.batch_size))))),
      measured_(segments(), most_slots_),
      estimated_(segments(), most_slots_) {
  find_tied();
}

StageMemory::Table::Table(int segments, int most_slots)
    : segments_(static_cast<std::size_t>(segments)),
      most_slots_(static_cast<std::size_t>(most_slots)),
      bytes_(2 * segments_ * segments_ * most_slots_) {}

std::atomic<std::int64_t>& StageMemory::Table::at(int first, int last, int slots, bool recompute) {
  const auto range = static_cast<std::size_t>(first) * segments_ + static_cast<std::size_t>(last - 1);
  const auto slot = static_cast<std::size_t>(slots - 1);
  ROOKERY_CHECK(slot < most_slots_, "{} slots of {}", slots, most_slots_);
  return bytes_[(range * most_slots_ + slot) * 2 + (recompute ? 1 : 0)];
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
  if (first > 0) cuts.push_back(begins_[static_cast<std::size_t>(first)]);
  if (last < segments()) cuts.push_back(begins_[static_cast<std::size_t>(last)]);
  std::vector<Stage> stages = cut(graph_, cuts);
  return std::move(stages[first > 0 ? 1 : 0]);
}

CompileOptions StageMemory::options(int slots, bool recompute) const {
  CompileOptions options = options_;
  options.slots = slots;
  options.recompute = recompute;
  return options;
}

std::int64_t StageMemory::transport(const Stage& stage) const {
  return transport_bytes(stage, micro_batch_sizes(settings_, settings_.batch_size).front());
}

std::int64_t StageMemory::measured(int first, int last, int slots, bool recompute) {
  std::atomic<std::int64_t>& known = measured_.at(first, last, slots, recompute);
  if (known != 0) return known;
  const Stage range = stage(first, last);
  const std::int64_t others = transport(range) + (first == 0 ? data_bytes_ : 0);
  if (recompute) {
    known = memory_use(range, options(slots, true)).total() + others;
  } else {
    const std::vector<MemoryUse> uses = memory_by_slots(range, options(most_slots_, false));
    for (int i = 0; i < most_slots_; ++i)
      measured_.at(first, last, i + 1, false) = uses[static_cast<std::size_t>(i)].total() + others;
  }
  if (is_estimated()) {
    const double ratio =
        static_cast<double>(known) / static_cast<double>(estimated(first, last, slots, recompute));
    for (double raised = raised_; raised < ratio && !raised_.compare_exchange_weak(raised, ratio);) {
    }
  }
  return known;
}

// By first segment.
std::vector<StageMemory::Parts> StageMemory::windows(int length, bool recompute) const {
  const int slots =
      recompute || options_.stashes_weights ? 2 : 1;  // of one nothing is computed again, or stashed
  std::vector<Parts> all(static_cast<std::size_t>(segments() - length + 1));
  // A cut into windows side by side, for every place where the first may begin.
  for (int offset = 0; offset < length; ++offset) {
    std::vector<OpId> begins{0};
    for (int i = offset; i < segments(); i += length) {
      if (i > 0) begins.push_back(begins_[static_cast<std::size_t>(i)]);
    }
    const std::vector<Stage> stages = cut(graph_, begins);
    std::size_t stage = offset == 0 ? 0 : 1;
    for (int i = offset; i + length <= segments(); i += length, ++stage) {
      const MemoryUse use = memory_use(stages[stage], options(slots, recompute));
      const std::int64_t version = use.versions / std::max(1, slots - 1);
      all[static_cast<std::size_t>(i)] = {
          .fixed = static_cast<double>(use.total() - use.stash - use.workspace - use.versions - version),
          .stash = static_cast<double>(use.stash) / slots + static_cast<double>(version),
          .workspace = static_cast<double>(use.workspace),
          .transport = static_cast<double>(transport(stages[stage]))};
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
                           .stash = before.stash + with[i].stash - without[i].stash});
  }
  return made;
}

std::int64_t StageMemory::estimated(int first, int last, int slots, bool recompute) {
  std::atomic<std::int64_t>& known = estimated_.at(first, last, slots, recompute);
  if (known == 0) known = estimate_of(first, last, slots, recompute);
  return known;
}

std::int64_t StageMemory::estimate_of(int first, int last, int slots, bool recompute) {
  const Estimate& known = estimate(recompute);
  const int length = std::min(last - first, kWindow);
  const std::vector<Parts>& windows = known.windows[static_cast<std::size_t>(length - 1)];
  const auto begin = static_cast<std::size_t>(first);
  const auto end = static_cast<std::size_t>(last - length);  // where the last window begins
  Parts sum = windows[begin];
  if (end > begin) {
    const Parts& from = known.growth[begin + 1];
    const Parts& to = known.growth[end + 1];
    sum.fixed += to.fixed - from.fixed;
    sum.stash += to.stash - from.stash;
  }
  for (std::size_t i = begin; i <= end; ++i) {
    sum.workspace = std::max(sum.workspace, windows[i].workspace);
    sum.transport = std::max(sum.transport, windows[i].transport);
  }
  std::int64_t tied_bytes = 0;
  for (const Tied& tied : tied_) {
    if (tied.first >= first && tied.last < last) tied_bytes += tied.bytes;
  }
  return static_cast<std::int64_t>(sum.fixed + slots * sum.stash + sum.workspace + sum.transport) -
         tied_bytes + (first == 0 ? data_bytes_ : 0);
}

std::int64_t StageMemory::bytes(int first, int last, int slots, bool recompute) {
  if (!is_estimated()) return measured(first, last, slots, recompute);
  if (const std::int64_t known = measured_.at(first, last, slots, recompute); known != 0) return known;
  return static_cast<std::int64_t>(raised_ * static_cast<double>(estimated(first, last, slots, recompute)));
}

}  // namespace rookery
