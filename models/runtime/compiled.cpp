#include "models/runtime/compiled.hpp"

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
    for (const ValueId id : ids)
      result.push_back(id == kNoValue ? TensorType{} : types[static_cast<std::size_t>(id)]);
    return result;
  };
  const std::vector<TensorType> inputs = types_of(op.inputs);
  const std::vector<TensorType> outputs = types_of(op.outputs);
  return make_kernel(chosen_kernel(options.kernels, op),
                     {.op = op, .inputs = inputs, .outputs = outputs, .seed = options.seed});
}

// What belongs to `of` in the graph that the new one was made of.
template <typename T>
std::vector<T> taken_from(const std::vector<T>& before, const std::vector<int>& of) {
  std::vector<T> now;
  for (const int id : of) now.push_back(before[static_cast<std::size_t>(id)]);
  return now;
}

}  // namespace

CompiledForm compile_form(const Stage& stage, Mode mode, std::int64_t size, const CompileOptions& options,
                          bool accumulates) {
  CompiledForm form{.size = size};
  Graph forward = fuse(stage.graph);
  forward =
      with_blocked_layout(forward, chosen_blocked(options.kernels), stage.gradient_request(forward).received);
  if (mode == Mode::kTraining) {
    form.training = differentiate(forward, stage.gradient_request(forward));
    if (form.training.sent_gradients.empty()) form.training = in_one_backward_phase(std::move(form.training));
  } else {
    form.training.phases.assign(forward.ops().size(), Phase::kForward);
    form.training.graph = std::move(forward);
  }
  form.types = form.training.graph.types(size);
  std::vector<std::size_t> scratch;
  for (const Op& op : form.training.graph.ops()) {
    form.kernels.push_back(kernel_of(op, form.types, options));
    scratch.push_back(form.kernels.back() ? form.kernels.back()->scratch_bytes() : 0);
  }
  if (mode == Mode::kTraining && options.recompute) {
    RecomputedGraph again = recompute(form.training, form.types, scratch, options.slots, accumulates);
    form.training = std::move(again.training);
    form.types = taken_from(form.types, again.values);
    form.kernels = taken_from(form.kernels, again.ops);
    scratch = taken_from(scratch, again.ops);
  }
  form.plan = mode == Mode::kTraining ? plan_memory(form.training, form.types, scratch, accumulates)
                                      : plan_memory(form.training.graph, form.types, scratch);
  return form;
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
