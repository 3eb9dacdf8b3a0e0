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

StageCompiler::StageCompiler(const Stage& stage, const CompileOptions& options)
    : options_(options),
      training_(options.training_sizes.empty() ? TrainingGraph()
                                               : program_graph(stage, Mode::kTraining, options)),
      inference_(options.inference_sizes.empty() ? TrainingGraph()
                                                 : program_graph(stage, Mode::kInference, options)) {
  for (const std::int64_t size : options.training_sizes)
    training_variants_.emplace_back(training_, Mode::kTraining, size, options_, options.accumulates());
  for (const std::int64_t size : options.inference_sizes)
    inference_variants_.emplace_back(inference_, Mode::kInference, size, options_, false);
}

CompiledVariants StageCompiler::variants(int slots) {
  ROOKERY_CHECK(slots >= 1, "{} slots", slots);
  CompiledVariants made;
  for (VariantCompiler& each : training_variants_) made.training.push_back(each.variant(slots));
  for (VariantCompiler& each : inference_variants_) made.inference.push_back(each.variant(slots));
  return made;
}

CompiledVariants compile_variants(const Stage& stage, const CompileOptions& options) {
  return StageCompiler(stage, options).variants(options.slots);
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
  return compile_variants(stage, options).memory(stage, options);
}

std::vector<MemoryUse> memory_by_slots(const Stage& stage, CompileOptions options) {
  const int slots = options.slots;
  StageCompiler compiler(stage, options);
  std::optional<CompiledVariants> variants;
  std::vector<MemoryUse> uses;
  for (options.slots = 1; options.slots <= slots; ++options.slots) {
    // What is recomputed depends on the slots; all else does not.
    if (!variants || options.recompute) variants = compiler.variants(options.slots);
    uses.push_back(variants->memory(stage, options));
  }
  return uses;
}

}  // namespace rookery
