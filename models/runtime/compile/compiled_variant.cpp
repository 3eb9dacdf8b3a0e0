#include "models/runtime/compile/compiled_variant.hpp"

#include "models/graph/op_definition.hpp"
#include "models/graph/passes/blocked_layout.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "models/graph/passes/fuse.hpp"
#include "models/graph/passes/memory/updates_in_backward.hpp"

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

}  // namespace

TrainingGraph program_graph(const Stage& stage, Mode mode, const CompileOptions& options) {
  Graph forward = fuse(stage.graph);
  forward = with_blocked_layout(forward, chosen_blocked(options.kernels, forward),
                                stage.gradient_request(forward).received);
  if (mode == Mode::kTraining) {
    TrainingGraph training = differentiate(forward, stage.gradient_request(forward));
    if (training.sent_gradients.empty()) training = in_one_backward_phase(std::move(training));
    if (!options.updates_in_backward) return training;
    std::set<std::string> shared;
    for (const SharedParameter& parameter : stage.shared) shared.insert(parameter.parameter);
    return with_updates_in_backward(std::move(training), shared);
  }
  TrainingGraph inference;
  inference.phases.assign(forward.ops().size(), Phase::kForward);
  inference.graph = std::move(forward);
  return inference;
}

VariantCompiler::VariantCompiler(const TrainingGraph& graph, Mode mode, std::int64_t size,
                                 const CompileOptions& options, bool accumulates)
    : graph_(graph), size_(size), types_(graph.graph.types(size)) {
  for (const Op& op : graph.graph.ops()) {
    kernels_.push_back(kernel_of(op, types_, options));
    scratch_.push_back(kernels_.back() ? kernels_.back()->scratch_bytes() : 0);
  }
  const StepShape step{.accumulates = accumulates, .delays_weights = options.delays_weights};
  if (mode == Mode::kInference) {
    plan_ = plan_memory(graph.graph, types_, scratch_);
  } else if (options.recompute) {
    recomputed_ = std::make_unique<Recomputation>(graph, types_, scratch_, step);
  } else {
    plan_ = plan_memory(graph, types_, scratch_, step);
  }
}

CompiledVariant VariantCompiler::variant(int slots) {
  if (!recomputed_)
    return {.size = size_, .training = graph_, .types = types_, .kernels = kernels_, .plan = plan_};
  const Recomputation::Planned& best = recomputed_->best(slots);
  return {.size = size_,
          .training = best.graph.training,
          .types = taken_from(types_, best.graph.values),
          .kernels = taken_from(kernels_, best.graph.ops),
          .plan = best.plan};
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
