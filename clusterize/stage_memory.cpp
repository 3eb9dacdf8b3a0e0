#include "clusterize/stage_memory.hpp"

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
      options_(compile_options(settings_, data, 0, 1, kernels)) {}

// The stage as it is in any cut that has these two boundaries: what it keeps does not depend on how
// the rest is cut.
Stage StageMemory::stage(int first, int last) const {
  std::vector<OpId> cuts{0};
  if (first > 0) cuts.push_back(begins_[static_cast<std::size_t>(first)]);
  if (last < std::ssize(begins_)) cuts.push_back(begins_[static_cast<std::size_t>(last)]);
  std::vector<Stage> stages = cut(graph_, cuts);
  return std::move(stages[first > 0 ? 1 : 0]);
}

std::int64_t StageMemory::bytes(int first, int last, int slots, bool recompute) {
  const std::tuple key(first, last, slots, recompute);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
  }
  const Stage part = stage(first, last);
  CompileOptions options = options_;
  options.slots = slots;
  options.recompute = recompute;
  const std::int64_t bytes =
      memory_use(part, options).total() +
      transport_bytes(part, micro_batch_sizes(settings_, settings_.batch_size).front()) +
      (first == 0 ? data_bytes_ : 0);
  const std::scoped_lock lock(mutex_);
  return known_.try_emplace(key, bytes).first->second;
}

}  // namespace rookery
