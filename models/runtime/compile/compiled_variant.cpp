#include "models/runtime/compile/compiled_variant.hpp"

#include "models/graph/op_definition.hpp"
#include "models/graph/passes/blocked_layout.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "models/graph/passes/fuse.hpp"
#include "models/graph/passes/memory/recompute.hpp"

namespace rookery {
namespace {

std::shared_ptr<Kernel> kernel_of(const Op& op, const std::vector<TensorType>& types,
                                  const CompileOptions& options) {
  if (is_view(op)) return nullptr;
  const auto types_of = [&](const std::vector<ValueId>& ids) {
    std::vector<TensorType> result;
    for (const ValueId id : ids) result.push_back(id == kNoValue ? TensorType{} : types[id]);
    return result;
  };
  const std::vector<TensorType> inputs = types_of(op.inputs);
  const std::vector<TensorType> outputs = types_of(op.outputs);
  return options.processor->describe_kernel(
      chosen_kernel(options.kernels, op),
      {.op = op, .inputs = inputs, .outputs = outputs, .seed = options.seed});
}

// Takes what belongs to `of` in the graph that the new one was made of.
template <typename T>
std::vector<T> taken_from(const std::vector<T>& before, const std::vector<int>& of) {
  std::vector<T> now;
  for (const int id : of) now.push_back(before[id]);
  return now;
}

}  // namespace

CompiledVariant compile_variant(const Stage& stage, Mode mode, std::int64_t size,
                                const CompileOptions& options, bool accumulates) {
  CompiledVariant variant{.size = size};
  Graph forward = fuse(stage.graph);
  forward = with_blocked_layout(forward, chosen_blocked(options.kernels, forward),
                                stage.gradient_request(forward).received);
  if (mode == Mode::kTraining) {
    variant.training = differentiate(forward, stage.gradient_request(forward));
    if (variant.training.sent_gradients.empty())
      variant.training = in_one_backward_phase(std::move(variant.training));
  } else {
    variant.training.phases.assign(forward.ops().size(), Phase::kForward);
    variant.training.graph = std::move(forward);
  }
  variant.types = variant.training.graph.types(size);
  std::vector<std::size_t> scratch;
  for (const Op& op : variant.training.graph.ops()) {
    variant.kernels.push_back(kernel_of(op, variant.types, options));
    scratch.push_back(variant.kernels.back() ? variant.kernels.back()->scratch_bytes() : 0);
  }
  const StepShape step{.accumulates = accumulates, .delays_weights = options.delays_weights};
  if (mode == Mode::kTraining && options.recompute) {
    RecomputedGraph again = recompute(variant.training, variant.types, scratch, options.slots, step);
    variant.training = std::move(again.training);
    variant.types = taken_from(variant.types, again.values);
    variant.kernels = taken_from(variant.kernels, again.ops);
    scratch = taken_from(scratch, again.ops);
  }
  variant.plan = mode == Mode::kTraining ? plan_memory(variant.training, variant.types, scratch, step)
                                         : plan_memory(variant.training.graph, variant.types, scratch);
  return variant;
}

ArenaLayout lay_out(const Graph& graph, const std::vector<ValueId>& values) {
  ArenaLayout layout;
  for (const ValueId id : values) {
    layout.offsets.emplace(id, layout.bytes);
    layout.bytes += align_up(graph.value(id).type.bytes());
  }
  return layout;
}

}  // namespace rookery
