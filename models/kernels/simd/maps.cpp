// Dropout, Relu, Add and their gradients.
#include "models/base/rng.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes.hpp"
#include "models/kernels/simd/families.hpp"
#include "models/kernels/simd/loops/loops.hpp"

namespace rookery::simd {

std::unique_ptr<Kernel> make_dropout(const KernelRequest& request) {
  if (request.outputs.size() < 2) return nullptr;
  const RngKey key = rng_key(request.seed, request.op.name);
  return lambda_kernel([s = dropout_shape(request), key, &all = loops()](const Arguments& args) {
    all.dropout({.elements = s.elements,
                 .key_low = key.low,
                 .key_high = key.high,
                 .stream = args.context.stream(),
                 .threshold = s.threshold,
                 .scale = s.scale},
                args.in(0), args.out(0), args.out<std::uint8_t>(1));
  });
}

std::unique_ptr<Kernel> make_dropout_grad(const KernelRequest& request) {
  return lambda_kernel([s = dropout_shape(request), &all = loops()](const Arguments& args) {
    all.dropout_grad(s.elements, s.scale, args.in(0), args.in<std::uint8_t>(1), args.out(0));
  });
}

std::unique_ptr<Kernel> make_relu(const KernelRequest& request) {
  return lambda_kernel([n = request.outputs[0].shape.elements(), &all = loops()](const Arguments& args) {
    all.relu(n, args.in(0), args.out(0));
  });
}

std::unique_ptr<Kernel> make_relu_grad(const KernelRequest& request) {
  return lambda_kernel([n = request.outputs[0].shape.elements(), &all = loops()](const Arguments& args) {
    all.relu_grad(n, args.in(0), args.in(1), args.out(0));
  });
}

std::unique_ptr<Kernel> make_add(const KernelRequest& request) {
  if (request.inputs[0] != request.inputs[1]) return nullptr;
  return lambda_kernel([n = request.outputs[0].shape.elements(), &all = loops()](const Arguments& args) {
    all.add(n, args.in(0), args.in(1), args.out(0));
  });
}

}  // namespace rookery::simd
