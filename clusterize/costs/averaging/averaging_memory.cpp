#include "clusterize/costs/averaging/averaging_memory.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "models/graph/stage.hpp"
#include "trainer/averaging/averagers.hpp"

namespace rookery {
namespace {

void add_value(const Value& value, AveragedLoad& load) {
  RingLoad& of_kind = value.kind == ValueKind::kParameter ? load.parameters : load.buffers;
  of_kind.numbers += static_cast<std::uint64_t>(value.type.shape.elements());
  ++of_kind.tensors;
}

// By segment, averager_bytes() of what the segments before it have: of what several use, the first.
std::vector<std::int64_t> bytes_before(const Graph& graph, const std::vector<OpId>& begins,
                                       const TrainingSettings& settings) {
  const std::vector<ValueId> values = averaged_values(graph);
  std::set<ValueId> left(values.begin(), values.end());
  std::vector<std::int64_t> bytes;
  AveragedLoad load;
  for (std::size_t op = 0; op < graph.ops().size(); ++op) {
    if (bytes.size() < begins.size() && begins[bytes.size()] == static_cast<OpId>(op))
      bytes.push_back(averager_bytes(settings, load));
    for (const ValueId input : graph.ops()[op].inputs) {
      if (left.erase(input) > 0) add_value(graph.value(input), load);
    }
  }
  bytes.push_back(averager_bytes(settings, load));
  return bytes;
}

class AveragingMemory final : public MemoryModel {
 public:
  AveragingMemory(std::shared_ptr<const MemoryModel> memory, std::vector<std::int64_t> before,
                  std::int64_t ring_bytes)
      : memory_(std::move(memory)), before_(std::move(before)), ring_bytes_(ring_bytes) {}

  std::int64_t bytes(const StageRange& range) const override {
    return memory_->bytes(range) + ring_bytes_ + before_[range.last] - before_[range.first];
  }
  bool is_exact() const override { return memory_->is_exact(); }
  std::shared_ptr<const MemoryModel> refine(std::span<const StageRange> stages) const override {
    return of(memory_->refine(stages));
  }
  std::shared_ptr<const MemoryModel> exact() const override { return of(memory_->exact()); }

 private:
  std::shared_ptr<const MemoryModel> of(std::shared_ptr<const MemoryModel> memory) const {
    if (memory == nullptr) return nullptr;
    return std::make_shared<AveragingMemory>(std::move(memory), before_, ring_bytes_);
  }

  const std::shared_ptr<const MemoryModel> memory_;
  const std::vector<std::int64_t> before_;  // by segment
  const std::int64_t ring_bytes_;
};

}  // namespace

std::shared_ptr<const MemoryModel> with_averaging(std::shared_ptr<const MemoryModel> memory,
                                                  const Graph& graph, const std::vector<OpId>& begins,
                                                  const TrainingSettings& settings, std::int64_t ring_bytes) {
  return std::make_shared<AveragingMemory>(std::move(memory), bytes_before(graph, begins, settings),
                                           ring_bytes);
}

}  // namespace rookery
