#include "models/kernels/choose.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/passes/blocked_layout.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/measured.hpp"

namespace rookery {

namespace {

// Conversions of layout and sums of gradients: every back end computes the same bits.
bool is_exact(const Op& op) {
  return op.type == "ToBlocked" || op.type == "FromBlocked" ||
         (op.type == "Add" && op.attributes.contains("forward"));
}

// Is it one of those whose passes are measured where they are large?
bool is_measured(const Op& op) {
  return op.type == "Conv" || op.type == "Gemm";
}

struct TypedOp {
  Op op;
  std::vector<TensorType> inputs, outputs;

  KernelRequest request() const { return {.op = op, .inputs = inputs, .outputs = outputs}; }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const auto* types : {&inputs, &outputs}) {
      for (const TensorType& type : *types) sum += static_cast<std::int64_t>(type.bytes());
    }
    return sum;
  }
};

constexpr const char* kWinograd = "simd/blocked-winograd";
constexpr const char* kPlaces = "simd/blocked-places";
constexpr const char* kPointwise = "simd/blocked-pointwise";

class Chooser {
 public:
  Chooser(const Graph& graph, std::int64_t micro_batch, MeasuredKernels* measured)
      : graph_(graph), types_(graph.types(micro_batch)), measured_(measured) {}

  KernelChoice choose() {
    for (const Op& op : graph_.ops()) choose_plain(op);
    for (const Op& op : graph_.ops()) {
      if (gains_from_blocks(op)) choose_blocked(op);
      if (is_measured(op) && measured_ != nullptr) measure(op);
      if (op.type == "Conv" && measured_ == nullptr && gains_from_winograd(op)) choose_winograd(op);
    }
    return std::move(choice_);
  }

  // An op's entry and those of its gradients stay or go together.
  KeptKernels keep(const KernelChoice& before, const KernelChoice& now) const {
    std::map<std::string, KernelChoice> before_of = by_op(before);
    std::map<std::string, KernelChoice> now_of = by_op(now);
    KeptKernels result;
    for (const Op& op : graph_.ops()) {
      KernelChoice& old = before_of[op.name];
      KernelChoice& fresh = now_of[op.name];
      const bool stays = old == fresh || (old.contains(op.name) && has_all(op, old));
      if (!stays) result.replaced.insert(op.name);
      result.choice.merge(stays ? old : fresh);
    }
    return result;
  }

 private:
  std::map<std::string, KernelChoice> by_op(const KernelChoice& choice) const {
    std::map<std::string, KernelChoice> entries;
    for (const auto& entry : choice) entries[chosen_op(graph_, entry.first)].insert(entry);
    return entries;
  }

  // Are there kernels for all entries that this op and its gradients have?
  bool has_all(const Op& op, const KernelChoice& choice) const {
    const auto serves_entry = [&](const TypedOp& typed) {
      const auto entry = choice.find(typed.op.name);
      return entry == choice.end() || describe_kernel_of(entry->second, typed.request()) != nullptr;
    };
    const bool blocked = asks_for(choice.at(op.name), "blocked");
    // Only the gradients of these have entries or a layout of their own.
    if (is_measured(op) || blocked) return std::ranges::all_of(training_ops(op, blocked), serves_entry);
    return serves_entry({op, types_of(op.inputs), types_of(op.outputs)});
  }

  const TensorType& type_of(ValueId id) const {
    static const TensorType absent;
    return id == kNoValue ? absent : types_[id];
  }

  std::vector<TensorType> types_of(const std::vector<ValueId>& ids) const {
    std::vector<TensorType> result;
    for (const ValueId id : ids) result.push_back(type_of(id));
    return result;
  }

  void choose_plain(const Op& op) {
    const auto inputs = types_of(op.inputs);
    const auto outputs = types_of(op.outputs);
    const KernelRequest request{.op = op, .inputs = inputs, .outputs = outputs};
    for (const Backend* backend : all_backends()) {
      if (!backend->prefers(request)) continue;
      choice_[op.name] = backend->name;
      return;
    }
  }

  // Convolutions too large for our own loops are fastest on blocks; what follows them does as they do, so
  // that images are converted at the ends of such a chain only.
  bool gains_from_blocks(const Op& op) {
    const OpDefinition& definition = op_definition(op.type);
    if (!definition.takes_image(0) || !has_blocks(op.outputs[0])) return false;
    if (op.type == "Conv" && choice_[op.name] == "onednn") return has_gradient_in_blocks(op.inputs[0]);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (definition.takes_image(i) && !is_blocked_.contains(op.inputs[i])) return false;
    }
    return true;
  }

  bool has_blocks(ValueId value) const {
    const Shape& shape = type_of(value).shape;
    return shape.rank() == 4 && shape[1] % kChannelBlock == 0;
  }

  // The gradient of an op on blocks is in blocks; the model's inputs (the first convolution's) have none.
  bool has_gradient_in_blocks(ValueId image) const {
    return has_blocks(image) || graph_.value(image).kind != ValueKind::kActivation;
  }

  void choose_blocked(const Op& op) {
    const std::string choice = op.type == "Conv" ? "onednn/blocked" : "simd/blocked";
    if (!serves(choice, op)) return;
    choice_[op.name] = choice;
    is_blocked_.insert(op.outputs[0]);
  }

  // Does it have kernels for the op and for its gradients?
  bool serves(const std::string& choice, const Op& op) const {
    return std::ranges::all_of(training_ops(op, true), [&](const TypedOp& typed) {
      return describe_kernel_of(choice, typed.request()) != nullptr;
    });
  }

  // Without measurements: windows of 3 x 3 over maps that are not small.
  bool gains_from_winograd(const Op& op) const {
    constexpr std::int64_t kLeastSide = 8;
    const Shape& result = type_of(op.outputs[0]).shape;
    return is_blocked_.contains(op.outputs[0]) && result[2] >= kLeastSide && result[3] >= kLeastSide;
  }

  void choose_winograd(const Op& op) {
    if (serves(kWinograd, op)) choice_[op.name] = kWinograd;
  }

  // Which algorithm of a large convolution, or whose product, pass by pass; also of products that rules give
  // to our own tiles.
  void measure(const Op& op) {
    constexpr double kLeastFlops = 20e6, kMostFlops = 50e9;  // neither too small nor too long
    constexpr std::int64_t kMostBytes = 1 << 29;
    const std::string choice = choice_[op.name];
    const bool is_product = op.type == "Gemm";
    if (!choice.starts_with("onednn") && !(is_product && choice == "simd")) return;
    const bool blocked = is_blocked_.contains(op.outputs[0]);
    const std::vector<std::string> algorithms =
        is_product ? std::vector<std::string>{"onednn", "simd"}
        : blocked  ? std::vector<std::string>{choice + "-direct", kWinograd, kPlaces, kPointwise}
                   : std::vector{choice + "/direct"};
    for (const TypedOp& typed : training_ops(op, blocked)) {
      const double flops = op_definition(typed.op.type).flops(typed.op, typed.inputs, typed.outputs);
      if (flops < kLeastFlops || flops > kMostFlops || typed.bytes() > kMostBytes) continue;
      choice_[typed.op.name] = measured_->fastest(typed.request(), algorithms);
    }
  }

  // The op as it is in a training graph, and its gradient ops.
  std::vector<TypedOp> training_ops(const Op& op, bool blocked) const {
    Graph alone;
    Op copy = op;
    copy.outputs.clear();
    std::set<std::string> with_gradient;
    for (ValueId& id : copy.inputs) {
      if (id == kNoValue) continue;
      const Value& value = graph_.value(id);
      if (value.kind == ValueKind::kActivation) with_gradient.insert(value.name);
      const std::optional<ValueId> known = alone.find(value.name);
      const bool is_state = value.kind == ValueKind::kParameter || value.kind == ValueKind::kBuffer;
      id = known ? *known : is_state ? alone.add_source(value) : alone.add_input(value.name, type_of(id));
    }
    const std::string result = graph_.value(op.outputs[0]).name;
    alone.add_op(std::move(copy), {result});
    alone.mark_output(alone.at(result));
    if (blocked) alone = with_blocked_layout(alone, {op.name}, {});
    GradientRequest request{.inputs = {}, .received = {alone.at(result)}};
    for (const std::string& name : with_gradient) request.inputs.insert(alone.at(name));
    return typed_ops(differentiate(alone, request).graph);
  }

  // All that have kernels of the layout: no conversions, no views.
  static std::vector<TypedOp> typed_ops(const Graph& graph) {
    const std::vector<TensorType> types = graph.types(1);  // whose batch is fixed
    const auto types_of = [&](const std::vector<ValueId>& ids) {
      std::vector<TensorType> result;
      for (const ValueId id : ids) result.push_back(id == kNoValue ? TensorType{} : types[id]);
      return result;
    };
    std::vector<TypedOp> ops;
    for (const Op& op : graph.ops()) {
      if (op.type != "ToBlocked" && op.type != "FromBlocked" && !is_view(op))
        ops.push_back({op, types_of(op.inputs), types_of(op.outputs)});
    }
    return ops;
  }

  const Graph& graph_;  // outlives the chooser: both live in choose_kernels()
  std::vector<TensorType> types_;
  KernelChoice choice_;
  MeasuredKernels* measured_;
  std::set<ValueId> is_blocked_;
};

}  // namespace

const std::string& chosen_kernel(const KernelChoice& choice, const Op& op) {
  static const std::string fastest = "simd";
  auto found = choice.find(op.name);
  if (found == choice.end() && is_exact(op)) return fastest;
  if (found == choice.end()) found = choice.find(op.text("forward", op.name));
  if (found == choice.end()) {
    throw ConfigError(
        fmt::format("no kernel was chosen for op '{}': the plan is incomplete", op.text("forward", op.name)));
  }
  return found->second;
}

std::set<std::string> chosen_blocked(const KernelChoice& choice, const Graph& graph) {
  std::set<std::string> ops;
  for (const Op& op : graph.ops()) {
    const auto found = choice.find(op.name);
    if (found != choice.end() && asks_for(found->second, "blocked")) ops.insert(op.name);
  }
  return ops;
}

std::string chosen_op(const Graph& forward, const std::string& entry) {
  return forward.has_op(entry) ? entry : entry.substr(0, entry.rfind('.'));
}

KeptKernels keep_kernels(const Graph& graph, std::int64_t micro_batch, const KernelChoice& before,
                         const KernelChoice& now) {
  return Chooser(graph, micro_batch, nullptr).keep(before, now);
}

KernelChoice choose_kernels(const Graph& graph, std::int64_t micro_batch, MeasuredKernels* measured) {
  return Chooser(graph, micro_batch, measured).choose();
}

}  // namespace rookery
