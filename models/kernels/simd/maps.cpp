// Dropout, Add, functions of one number, and their gradients.
#include <limits>
#include <optional>
#include <string_view>

#include "models/base/rng.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::simd {
namespace {

// body(first, count) for runs of elements that begin where vectors do, also of bytes.
template <typename Body>
void for_elements(Index n, Body body) {
  in_runs(n, 1, body, kAlignment);
}

constexpr Index kDropoutBlock = 4;  // elements of a counter, see Dropout

std::unique_ptr<Kernel> make_dropout(const KernelRequest& request) {
  if (request.outputs.size() < 2) return nullptr;
  const RngKey key = rng_key(request.seed, request.op.name);
  return lambda_kernel([s = dropout_shape(request), key, &all = loops()](const Arguments& args) {
    for_elements(s.elements, [&](Index at, Index n) {
      all.dropout({.elements = n,
                   .key_low = key.low,
                   .key_high = key.high,
                   .stream = args.context.stream(),
                   .threshold = s.threshold,
                   .scale = s.scale,
                   .first_block = static_cast<std::uint64_t>(at / kDropoutBlock)},
                  args.in(0) + at, args.out(0) + at, args.out<std::uint8_t>(1) + at);
    });
  });
}

std::unique_ptr<Kernel> make_dropout_grad(const KernelRequest& request) {
  return lambda_kernel([s = dropout_shape(request), &all = loops()](const Arguments& args) {
    for_elements(s.elements, [&](Index at, Index n) {
      all.dropout_grad(n, s.scale, args.in(0) + at, args.in<std::uint8_t>(1) + at, args.out(0) + at);
    });
  });
}

std::unique_ptr<Kernel> make_relu(const KernelRequest& request) {
  return lambda_kernel([n = request.outputs[0].shape.elements(), &all = loops()](const Arguments& args) {
    for_elements(n, [&](Index at, Index count) { all.relu(count, args.in(0) + at, args.out(0) + at); });
  });
}

std::unique_ptr<Kernel> make_relu_grad(const KernelRequest& request) {
  return lambda_kernel([n = request.outputs[0].shape.elements(), &all = loops()](const Arguments& args) {
    for_elements(n, [&](Index at, Index count) {
      const float* const other = args.in(2);
      all.relu_grad(count, args.in(0) + at, other == nullptr ? nullptr : other + at, args.in(1) + at,
                    args.out(0) + at);
    });
  });
}

// Defaults are those of ONNX (models/graph/ops/unary_ops.cpp).
std::optional<Function> function_of(const Op& op, std::string_view type) {
  using enum Function::Kind;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (type == "Clip") return Function{kClip, {op.number("min", -kInfinity), op.number("max", kInfinity)}};
  if (type == "Gelu") return Function{op.text("approximate", "none") == "tanh" ? kGeluTanh : kGelu};
  if (type == "HardSigmoid")
    return Function{kHardSigmoid, {op.number("alpha", 0.2F), op.number("beta", 0.5F)}};
  if (type == "HardSwish") return Function{kHardSwish};
  if (type == "LeakyRelu") return Function{kLeakyRelu, {op.number("alpha", 0.01F)}};
  if (type == "Sigmoid") return Function{kSigmoid};
  if (type == "Tanh") return Function{kTanh};
  return std::nullopt;
}

std::unique_ptr<Kernel> make_function(const KernelRequest& request) {
  const auto function = function_of(request.op, request.op.type);
  if (!function) return nullptr;
  return lambda_kernel(
      [f = *function, n = request.outputs[0].shape.elements(), &all = loops()](const Arguments& args) {
        for_elements(n, [&](Index at, Index count) { all.map(f, count, args.in(0) + at, args.out(0) + at); });
      });
}

std::unique_ptr<Kernel> make_function_grad(const KernelRequest& request) {
  std::string_view type = request.op.type;
  type.remove_suffix(std::string_view("Grad").size());
  const auto function = function_of(request.op, type);
  if (!function) return nullptr;
  return lambda_kernel(
      [f = *function, n = request.outputs[0].shape.elements(), &all = loops()](const Arguments& args) {
        for_elements(n, [&](Index at, Index count) {
          all.map_grad(f, count, args.in(0) + at, args.in(1) + at, args.out(0) + at);
        });
      });
}

std::unique_ptr<Kernel> make_add(const KernelRequest& request) {
  if (request.inputs[0] != request.inputs[1] || request.inputs[0].dtype != DType::kF32) return nullptr;
  return lambda_kernel([n = request.outputs[0].shape.elements(), &all = loops()](const Arguments& args) {
    for_elements(n, [&](Index at, Index count) {
      all.add(count, args.in(0) + at, args.in(1) + at, args.out(0) + at);
    });
  });
}

}  // namespace

void add_maps(KernelTable& table) {
  table.add("Dropout", {.make = make_dropout, .prefers = [](const KernelRequest&) { return true; }});
  table.add("DropoutGrad", {make_dropout_grad});
  table.add("Relu", {make_relu});
  table.add("ReluGrad", {make_relu_grad});
  table.add("Add", {make_add});
  table.add_blocked("Relu", {make_relu});
  table.add_blocked("ReluGrad", {make_relu_grad});
  table.add_blocked("Add", {make_add});
  for (const std::string function :
       {"Clip", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Sigmoid", "Tanh"}) {
    table.add(function, {make_function});
    table.add(function + "Grad", {make_function_grad});
    table.add_blocked(function, {make_function});
    table.add_blocked(function + "Grad", {make_function_grad});
  }
}

}  // namespace rookery::simd
