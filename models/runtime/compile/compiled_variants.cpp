#include "models/runtime/compile/compiled_variants.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "models/base/error.hpp"

namespace rookery {
namespace {

// Bytes that an op takes with its names, types and kernel, and what its addresses take in each slot. Both
// were measured as the growth of a process that compiles models of the zoo.
constexpr std::size_t kOpBytes = 7 << 10;
constexpr std::size_t kBindingBytes = 512;

std::size_t largest_transient(const std::vector<CompiledVariant>& variants) {
  std::size_t most = 0;
  for (const CompiledVariant& variant : variants) most = std::max(most, variant.plan.transient_bytes);
  return most;
}

// The bytes that the compiled ops of one variant take in all its slots.
std::size_t program_bytes(const CompiledVariant& variant, int slots, bool accumulates) {
  const std::size_t bindings = static_cast<std::size_t>(slots) * (accumulates ? 2 : 1);
  std::size_t bytes = variant.kernels.size() * (kOpBytes + bindings * kBindingBytes);
  std::set<const Kernel*> counted;
  for (const std::shared_ptr<Kernel>& kernel : variant.kernels) {
    if (kernel && counted.insert(kernel.get()).second) bytes += kernel->library_bytes();
  }
  return bytes;
}

}  // namespace

std::size_t slot_bytes(const std::vector<CompiledVariant>& variants) {
  std::size_t most = 0;
  for (const CompiledVariant& variant : variants) most = std::max(most, variant.plan.stash_bytes);
  return most;
}

CompiledVariants::CompiledVariants(const Stage& stage, const CompileOptions& options) {
  ROOKERY_CHECK(options.slots >= 1, "{} slots", options.slots);
  for (const std::int64_t size : options.training_sizes)
    training.push_back(compile_variant(stage, Mode::kTraining, size, options, options.accumulates()));
  for (const std::int64_t size : options.inference_sizes)
    inference.push_back(compile_variant(stage, Mode::kInference, size, options, false));
}

ParameterLayout CompiledVariants::parameter_layout(const Stage& stage) const {
  return {stage, training.empty() ? nullptr : &training.front().training};
}

MemoryUse CompiledVariants::memory(const Stage& stage, const CompileOptions& options) const {
  MemoryUse use;
  const ParameterLayout parameters = parameter_layout(stage);
  use.parameters = static_cast<std::int64_t>(parameters.parameter_bytes +
                                             lay_out(stage.graph, stage.graph.buffers()).bytes +
                                             lay_out(stage.graph, stage.graph.constants()).bytes);
  if (!training.empty()) {
    use.versions = (options.versions() - 1) * static_cast<std::int64_t>(parameters.parameter_bytes);
    if (options.updates_ahead) use.kept = static_cast<std::int64_t>(kept_bytes(stage, options));
    use.gradients = static_cast<std::int64_t>(parameters.gradient_bytes);
    use.optimizer = static_cast<std::int64_t>(parameters.owned_bytes *
                                              make_optimizer(options.optimizer)->state_names().size());
  }
  const std::size_t stash = slot_bytes(training) * static_cast<std::size_t>(options.slots);
  use.stash = static_cast<std::int64_t>(stash);
  use.workspace = static_cast<std::int64_t>(working_bytes(options) - stash);
  std::size_t program = 0;
  for (const CompiledVariant& variant : training)
    program += program_bytes(variant, options.slots, options.accumulates());
  for (const CompiledVariant& variant : inference) program += program_bytes(variant, 1, false);
  use.program = static_cast<std::int64_t>(program);
  return use;
}

std::size_t CompiledVariants::kept_bytes(const Stage& stage, const CompileOptions& options) const {
  const ParameterLayout layout = parameter_layout(stage);
  std::size_t bytes =
      layout.parameter_bytes + layout.owned_bytes * make_optimizer(options.optimizer)->state_names().size();
  for (const ValueId id : stage.graph.buffers()) {
    const Value& buffer = stage.graph.value(id);
    if (!buffer.fixed) bytes += align_up(buffer.type.bytes());
  }
  return bytes;
}

std::size_t CompiledVariants::working_bytes(const CompileOptions& options) const {
  return std::max(
      slot_bytes(training) * static_cast<std::size_t>(options.slots) + largest_transient(training),
      slot_bytes(inference) + largest_transient(inference));
}

MemoryUse memory_use(const Stage& stage, const CompileOptions& options) {
  return CompiledVariants(stage, options).memory(stage, options);
}

// What is recomputed depends on the slots; all else of the variants does not.
std::vector<MemoryUse> memory_by_slots(const Stage& stage, CompileOptions options) {
  const int slots = options.slots;
  std::vector<MemoryUse> uses;
  std::optional<CompiledVariants> variants;
  for (options.slots = 1; options.slots <= slots; ++options.slots) {
    if (!variants || options.recompute) variants.emplace(stage, options);
    uses.push_back(variants->memory(stage, options));
  }
  return uses;
}

}  // namespace rookery
