// Dropout, Relu and their gradients.
#include "models/base/rng.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"

namespace rookery::eigen {
namespace {

std::unique_ptr<Kernel> make_dropout(const KernelRequest& request) {
  if (request.outputs.size() < 2) return nullptr;
  const RngKey key = rng_key(request.seed, request.op.name);
  return lambda_kernel([s = dropout_shape(request), key](const Arguments& args) {
    const float* x = args.in(0);
    float* y = args.out(0);
    auto* mask = args.out<std::uint8_t>(1);
    const std::uint64_t stream = args.context.stream();
    PhiloxBlock block{};
    for (std::int64_t i = 0; i < s.elements; ++i) {
      if (i % 4 == 0) {
        const auto counter = static_cast<std::uint64_t>(i / 4);
        block = philox({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
                        static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                       key);
      }
      const bool kept = block[i % 4] >= s.threshold;
      mask[i] = kept ? 1 : 0;
      y[i] = kept ? x[i] * s.scale : 0;
    }
  });
}

std::unique_ptr<Kernel> make_dropout_grad(const KernelRequest& request) {
  return lambda_kernel([s = dropout_shape(request)](const Arguments& args) {
    const float* dy = args.in(0);
    const auto* mask = args.in<std::uint8_t>(1);
    float* dx = args.out(0);
    for (std::int64_t i = 0; i < s.elements; ++i) dx[i] = mask[i] != 0 ? dy[i] * s.scale : 0;
  });
}

std::unique_ptr<Kernel> make_relu(const KernelRequest& request) {
  return lambda_kernel([n = request.outputs[0].shape.elements()](const Arguments& args) {
    const float* x = args.in(0);
    float* y = args.out(0);
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] <= 0 ? 0 : x[i];  // a NaN stays one
  });
}

std::unique_ptr<Kernel> make_relu_grad(const KernelRequest& request) {
  return lambda_kernel([n = request.outputs[0].shape.elements()](const Arguments& args) {
    const float* dy = args.in(0);
    const float* y = args.in(1);
    const float* other = args.in(2);
    float* dx = args.out(0);
    for (std::int64_t i = 0; i < n; ++i) dx[i] = y[i] > 0 ? (other == nullptr ? dy[i] : dy[i] + other[i]) : 0;
  });
}

}  // namespace

void add_elementwise(KernelTable& table) {
  table.add("Dropout", {make_dropout});
  table.add("DropoutGrad", {make_dropout_grad});
  table.add("Relu", {make_relu});
  table.add("ReluGrad", {make_relu_grad});
}

}  // namespace rookery::eigen
